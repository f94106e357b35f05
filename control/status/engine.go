package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warproute/warproute/dataplane"
)

// EngineState is which engine runs, and why.
type EngineState struct {
	Name       string   // cpu, gpu
	Reason     string   // why, in a word, for a metric's label: configured, no_gpu, ...
	Chosen     string   // the reason at the start: while every GPU is out, Reason says so
	Why        string   // the same as a sentence
	Devices    []Device // GPUs that workers use
	Cores      []int    // that the workers are pinned to
	MaxPackets int
	MaxDelay   time.Duration
	HugePages  bool // under the frames
}

// Engine is the answer of `show engine`.
type Engine struct {
	Name            string   `json:"name"`
	Reason          string   `json:"reason"`
	Why             string   `json:"why"`
	Devices         []Device `json:"devices,omitempty"`
	Workers         int      `json:"workers"`
	Cores           []int    `json:"cores"`
	HugePages       bool     `json:"huge_pages"`
	MaxPackets      int      `json:"max_packets"`
	MaxDelayNS      int64    `json:"max_delay_ns"`
	Chunks          uint64   `json:"chunks"`
	Packets         uint64   `json:"packets"`
	PacketsPerChunk float64  `json:"packets_per_chunk"`
	InFlight        int64    `json:"in_flight"` // chunks that the engine has now
	Held            int64    `json:"held"`      // packets waiting for neighbours now
	Pending         int64    `json:"pending"`   // packets in transmit rings now

	Frames []dataplane.FrameStats `json:"frames,omitempty"` // by worker

	ConfigLoaded time.Time `json:"config_loaded"` // when the configuration in force was
}

// EngineOf describes the engine of a snapshot and its work.
func EngineOf(s *Snapshot) Engine {
	return Engine{
		Name: s.Engine.Name, Reason: s.Engine.Reason, Why: s.Engine.Why, Devices: s.Engine.Devices,
		Workers: s.Stats.Workers, Cores: s.Engine.Cores, HugePages: s.Engine.HugePages,
		MaxPackets: s.Engine.MaxPackets, MaxDelayNS: s.Engine.MaxDelay.Nanoseconds(),
		Chunks: s.Stats.Chunks, Packets: s.Stats.Packets.Sum, PacketsPerChunk: s.Stats.Packets.Mean(),
		Frames: s.Stats.Frames, InFlight: s.Stats.InFlight, Held: s.Stats.Held, Pending: s.Stats.Pending,
		ConfigLoaded: s.Config.Loaded,
	}
}

// framesOf says how many frames are free, and which workers have none.
func framesOf(workers []dataplane.FrameStats) string {
	if len(workers) == 0 {
		return ""
	}
	var sum dataplane.FrameStats
	exhausted := ""
	for i, f := range workers {
		sum.Total, sum.Free, sum.Withheld = sum.Total+f.Total, sum.Free+f.Free, sum.Withheld+f.Withheld
		if f.Free == 0 {
			exhausted += fmt.Sprintf("; WORKER %d HAS NONE FREE and receives nothing", i)
		}
	}
	text := fmt.Sprintf("; %d of %d frames free", sum.Free, sum.Total)
	if sum.Withheld > 0 {
		text += fmt.Sprintf(", %d withheld as a failed GPU may still write to them", sum.Withheld)
	}
	return text + exhausted
}

// WriteEngine writes a line for each fact.
func WriteEngine(w io.Writer, e Engine) error {
	t := newTable(w)
	t.row("engine", fmt.Sprintf("%s (%s)", e.Name, e.Why))
	for i := range e.Devices {
		e.Devices[i].rows(t)
	}
	cores := ""
	if len(e.Cores) > 0 {
		cores = " on cores " + strings.Trim(fmt.Sprint(e.Cores), "[]")
	}
	t.row("workers", fmt.Sprintf("%d%s", e.Workers, cores))
	memory := "normal pages"
	if e.HugePages {
		memory = "huge pages"
	}
	t.row("frame memory", memory+framesOf(e.Frames))
	t.row("batch", fmt.Sprintf("up to %d packets or %v", e.MaxPackets, time.Duration(e.MaxDelayNS)))
	t.row("chunks", fmt.Sprintf("%d, of %.1f packets in the mean; %d in flight", e.Chunks, e.PacketsPerChunk, e.InFlight))
	t.row("packets", e.Packets)
	t.row("waiting", fmt.Sprintf("%d for neighbours, %d in transmit rings", e.Held, e.Pending))
	t.row("config", "loaded at "+e.ConfigLoaded.Format(time.RFC3339))
	return t.flush()
}
