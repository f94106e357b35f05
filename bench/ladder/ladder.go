// Package ladder measures what each step from a classical GPU offload to the router's engine gains, for
// plain IPv4 forwarding of 64-byte packets. All rungs process the same frames, alternately, and their
// results are compared with the CPU engine's before anything is timed.
package ladder

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/pcie"
	"github.com/warproute/warproute/dataplane"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate ../../scripts/ptx.sh ladder.cu

//go:embed ladder.ptx
var ptx []byte

// Options are the parameters of a measurement.
type Options struct {
	Driver   string        // file of the CUDA driver; "" is the installed one
	Table    string        // random, or one of routes.Names
	Routes   int           // 0: the default of internal/routes
	Seed     uint64        // of routes and frames
	Sizes    []int         // packets per chunk
	InFlight int           // chunks in flight of the throughput measurement
	Rungs    []string      // names to measure, in the order of Names; the first one's rate is the reference of the load
	Duration time.Duration // of a measurement: latency, throughput or load
	Rounds   int           // over all rungs
	Load     float64       // share of the first rung's throughput that is offered to each rung

	least  int                                                                   // frames, for tests; 0: leastFrames
	limits func(driver string, gpus int, shapes []pcie.Shape) ([]float64, error) // for tests; nil: pcie.Rates
}

// Limits of Options.
const (
	MaxPackets  = 4096
	MaxInFlight = 16
)

// Check returns an error for invalid options.
func (o *Options) Check() error {
	for _, n := range o.Sizes {
		if n < 1 || n > MaxPackets {
			return fmt.Errorf("chunks of %d packets: 1 to %d are possible", n, MaxPackets)
		}
	}
	for _, name := range o.Rungs {
		if _, err := rungByName(name); err != nil {
			return err
		}
	}
	switch {
	case len(o.Sizes) == 0 || len(o.Rungs) == 0:
		return errors.New("no sizes or no rungs to measure")
	case o.InFlight < 2 || o.InFlight > MaxInFlight:
		return fmt.Errorf("%d chunks in flight: 2 to %d are possible", o.InFlight, MaxInFlight)
	case o.Duration <= 0:
		return fmt.Errorf("a duration of %v: write a positive one", o.Duration)
	case o.Rounds < 1:
		return fmt.Errorf("%d rounds: at least 1 is needed", o.Rounds)
	case !(o.Load > 0 && o.Load <= 1):
		return fmt.Errorf("a load of %v: more than 0 and up to 1 are possible", o.Load)
	}
	return nil
}

// rung is a way to process chunks.
type rung struct {
	name, description string
	// open returns an engine over the frames in mem, for slots chunks in flight of up to size packets.
	open func(b *bench, mem []byte, slots, size int) (*engine, error)
}

// engine is an open rung.
type engine struct {
	dataplane.Engine
	lanes   bool                                        // express chunks have a lane of their own
	failed  func() error                                // error of the chunks so far
	kernels func(c *batch.Chunk) (time.Duration, error) // runs a chunk and returns the time of its kernels; nil: resident
	byGPU   func() uint64                               // chunks that the GPU executed; nil: all
	close   func() error                                // also reports failures
}

// chunksOnGPU returns the number of chunks that the GPU executed, if the engine can choose.
func (e *engine) chunksOnGPU() uint64 {
	if e.byGPU == nil {
		return 0
	}
	return e.byGPU()
}

// rungs are all rungs, from the bottom up.
var rungs = []rung{
	{"launches", "headers copied to the GPU, kernels that look up, rewrite and gather, results copied back", openCopies},
	{"graph", "the same as a CUDA graph; each slot has its own graph, buffers and stream", openGraphs},
	{"fused", "one kernel per chunk, which reads and rewrites frames in place", openFused},
	{"resident", "the same by a resident kernel, without driver calls; a block processes a whole chunk", openResident},
	{"tiles", "the router's engine: any block of its resident kernel processes any part of a chunk", openTiles},
	{"lanes", "the same; express chunks have a lane of their own", openLanes},
	{"auto", "the same with both engines: a chunk goes to the one that is predicted to finish it first", openAuto},
}

// Names returns the names of all rungs, from the bottom up.
func Names() (names []string) {
	for _, r := range rungs {
		names = append(names, r.name)
	}
	return names
}

// Description returns what a rung does, "" for an unknown name.
func Description(name string) string {
	r, err := rungByName(name)
	if err != nil {
		return ""
	}
	return r.description
}

func rungByName(name string) (*rung, error) {
	for i := range rungs {
		if rungs[i].name == name {
			return &rungs[i], nil
		}
	}
	return nil, fmt.Errorf("rung %q: write one of %q", name, Names())
}
