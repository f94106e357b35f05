package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warproute/warproute/dataplane"
)

// EngineState describes the running engine.
type EngineState struct {
	Name       string        // cpu, gpu
	Reason     string        // reason for the choice, as a metric label: configured, no_gpu, ...
	Chosen     string        // Reason at the start; Reason changes during a GPU outage
	Why        string        // Reason as a sentence
	Devices    []Device      // GPUs in use
	Cores      []int         // cores of the workers
	NUMANodes  []int         // of these cores; nil if the host has one node
	MaxPackets int           // maximum packets per chunk
	MaxDelay   time.Duration // maximum delay of a chunk
	HugePages  bool          // huge pages back the frame memory
}

// Engine is the answer of `show engine`.
type Engine struct {
	Name            string   `json:"name"`                   // current engine: cpu, gpu
	Reason          string   `json:"reason"`                 // reason for the engine, as in metrics: configured, no_gpu, ...
	Description     string   `json:"description"`            // reason for the engine, as a sentence
	Devices         []Device `json:"devices,omitempty"`      // GPUs in use
	Workers         int      `json:"workers"`                // number of workers
	Cores           []int    `json:"cores"`                  // CPU cores of the workers
	NUMANodes       []int    `json:"numa_nodes,omitempty"`   // NUMA nodes of these cores, on hosts with several nodes
	HugePages       bool     `json:"huge_pages"`             // true if huge pages back the frame memory
	MaxPackets      int      `json:"max_packets"`            // packets per chunk: see batch.max_packets
	MaxDelayNS      int64    `json:"max_delay_ns"`           // maximum delay of a chunk, ns
	Chunks          uint64   `json:"chunks"`                 // processed chunks
	Packets         uint64   `json:"packets"`                // processed packets
	PacketsPerChunk float64  `json:"packets_per_chunk"`      // average packets per chunk
	InFlight        int64    `json:"in_flight"`              // chunks in process by the engines
	NeighborQueue   int64    `json:"neighbor_queue_packets"` // packets queued for unresolved neighbors or missing SAs
	TxPending       int64    `json:"tx_pending_packets"`     // packets in transmit rings

	Frames []dataplane.FrameStats `json:"frames,omitempty"` // packet buffers (frames) of each worker

	ConfigLoaded time.Time `json:"config_loaded"` // load time of the active configuration
}

// EngineOf returns the engine view of a snapshot.
func EngineOf(s *Snapshot) Engine {
	return Engine{
		Name: s.Engine.Name, Reason: s.Engine.Reason, Description: s.Engine.Why, Devices: s.Engine.Devices,
		Workers: s.Stats.Workers, Cores: s.Engine.Cores, NUMANodes: s.Engine.NUMANodes, HugePages: s.Engine.HugePages,
		MaxPackets: s.Engine.MaxPackets, MaxDelayNS: s.Engine.MaxDelay.Nanoseconds(),
		Chunks: s.Stats.Chunks, Packets: s.Stats.Packets.Sum, PacketsPerChunk: s.Stats.Packets.Mean(),
		Frames: s.Stats.Frames, InFlight: s.Stats.InFlight, NeighborQueue: s.Stats.Waiting, TxPending: s.Stats.Transmitting,
		ConfigLoaded: s.Config.Loaded,
	}
}

// framesText summarizes free frames and names workers without any.
func framesText(workers []dataplane.FrameStats) string {
	if len(workers) == 0 {
		return ""
	}
	var sum dataplane.FrameStats
	exhausted := ""
	for i, f := range workers {
		sum.Total, sum.Free, sum.Withheld = sum.Total+f.Total, sum.Free+f.Free, sum.Withheld+f.Withheld
		if f.Free == 0 {
			exhausted += fmt.Sprintf("; WORKER %d HAS NO FREE FRAMES and receives nothing", i)
		}
	}
	text := fmt.Sprintf(", %d of %d frames free", sum.Free, sum.Total)
	if sum.Withheld > 0 {
		text += fmt.Sprintf(", %d withheld because a failed GPU could still write to them", sum.Withheld)
	}
	return text + exhausted
}

// WriteEngine writes the engine view, one property per line.
func WriteEngine(w io.Writer, e Engine) error {
	t := newTable(w)
	t.row("engine", fmt.Sprintf("%s (%s)", e.Name, e.Description))
	for i := range e.Devices {
		e.Devices[i].rows(t)
	}
	cores := ""
	switch len(e.Cores) {
	case 0:
	case 1:
		cores = fmt.Sprintf(" on core %d", e.Cores[0])
	default:
		cores = " on cores " + strings.Trim(fmt.Sprint(e.Cores), "[]")
	}
	if len(e.NUMANodes) > 0 && slices.Min(e.NUMANodes) == slices.Max(e.NUMANodes) {
		cores += fmt.Sprintf(", NUMA node %d", e.NUMANodes[0])
	} else if len(e.NUMANodes) > 0 {
		cores += ", NUMA nodes " + strings.Trim(fmt.Sprint(e.NUMANodes), "[]")
	}
	t.row("workers", fmt.Sprintf("%d%s", e.Workers, cores))
	memory := "normal pages"
	if e.HugePages {
		memory = "huge pages"
	}
	t.row("frame memory", memory+framesText(e.Frames))
	t.row("batch", fmt.Sprintf("up to %d packets or %v per chunk", e.MaxPackets, time.Duration(e.MaxDelayNS)))
	t.row("chunks", fmt.Sprintf("%d, %.1f packets on average; %d in flight", e.Chunks, e.PacketsPerChunk, e.InFlight))
	t.row("packets", e.Packets)
	t.row("queued", fmt.Sprintf("%s for unresolved neighbors or SAs, %d in transmit rings", count(e.NeighborQueue, "packet"), e.TxPending))
	t.row("configuration", "loaded "+e.ConfigLoaded.Format(time.RFC3339))
	return t.flush()
}
