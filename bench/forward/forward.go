// Package forward measures forwarding on memory ports: receive, engine, order and transmit, with
// one or more workers.
//
// Every run is verified before it is timed: transmitted frames are compared byte by byte with the
// result of a linear search over the routes and a rewrite that shares no code with the router.
package forward

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/pcie"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// Options are the parameters of a measurement.
type Options struct {
	IPv6     bool
	Engine   string        // cpu or gpu
	Timeout  time.Duration // of the GPU engine; 0: its default
	Table    string        // random, or one of routes.Names
	Routes   int           // 0: the default of internal/routes
	Sizes    []int         // of frames in bytes, without FCS, round-robin
	Testbed  testbed.Config
	Duration time.Duration // of a round
	Rounds   int
	Seed     uint64
	Logical  string // kind of logical ports to compare with physical ones; empty: none
	VLANs    int    // of each port, for that kind
}

// Result is the result of a measurement. Rates are those of the median round.
type Result struct {
	testbed.Summary
	Size      int                `json:"frame_bytes"`               // without FCS
	Mpps      float64            `json:"mpps"`                      // million packets per second
	Rounds    []float64          `json:"rounds_mpps"`               // of all rounds, in their order
	NsPacket  float64            `json:"ns_per_packet"`             // of one worker
	CPU       float64            `json:"cpu_ns_per_packet"`         // without idle polls; without emulated NICs also without receive and transmit
	Stages    map[string]float64 `json:"stage_ns_per_packet"`       // of one worker, by stage of a chunk: wait, engine, order, tx and total
	Limit     float64            `json:"limit_mpps"`                // of the same testbed with a null engine
	PCIeLimit float64            `json:"pcie_limit_mpps,omitempty"` // of GPUs that only read and write the headers
	Logical   string             `json:"logical,omitempty"`         // kind of logical ports
	VLANs     int                `json:"vlans,omitempty"`           // of each port
	Physical  float64            `json:"physical_mpps,omitempty"`   // of the same packets by physical ports, in alternating rounds
}

// variety returns the number of different frames: few enough for a cache with the random table, many
// with larger ones.
func (o *Options) variety() int {
	if o.Table == "random" {
		return 16384
	}
	return 1 << 19
}

// prepare returns routes, their forwarding table, and frames.
func (o *Options) prepare(n int) (rnd *rand.Rand, routes []testbed.Route, base *fib.FIB, play [][]byte, err error) {
	rnd = rand.New(rand.NewPCG(o.Seed, 0))
	if routes, err = testbed.Routes(rnd, o.Table, o.IPv6, o.Routes, o.Seed); err != nil {
		return nil, nil, nil, nil, err
	}
	if base, err = testbed.NewFIB(routes, 1500); err != nil {
		return nil, nil, nil, nil, err
	}
	return rnd, routes, base, frames(rnd, routes, n, o.Sizes), nil
}

// Run verifies, then measures.
func Run(o Options) (*Result, error) {
	c := o.Testbed
	if err := c.Check(); err != nil {
		return nil, err
	}
	_, routes, base, play, err := o.prepare(o.variety())
	if err != nil {
		return nil, err
	}
	tape := memport.Record(play)
	var compared *logical
	if o.Logical != "" {
		if compared, err = newLogical(&o, routes, play); err != nil {
			return nil, err
		}
		tape = compared.plain
	}
	res := &Result{Summary: testbed.NewSummary(c, o.IPv6, o.Table, len(routes)), Size: o.Sizes[0]}
	if res.Verified, err = verify(o, base, routes, play, nil); err != nil {
		return nil, fmt.Errorf("verify before measuring: %w", err)
	}
	if compared != nil {
		if _, err = verify(o, compared.base, routes, play, compared); err != nil {
			return nil, fmt.Errorf("verify logical ports before measuring: %w", err)
		}
	}
	if o.Engine == "gpu" { // a kernel reads 64 bytes with the headers and writes the changed half
		rates, err := pcie.RatesOn(c.Driver, c.GPUs, c.Multiprocessors, []pcie.Shape{{At: umem.DataOffset - umem.Headroom, Read: 64, Back: 32}})
		if err != nil {
			return nil, err
		}
		res.PCIeLimit = rates[0]
	}
	var rounds, limits, physical []testbed.Round
	for range o.Rounds { // alternate, so that all run under the same conditions
		r, err := measure(o, base, o.engines(base), tape, nil)
		if err != nil {
			return nil, err
		}
		if compared != nil {
			physical = append(physical, r)
			if r, err = measure(o, compared.base, o.engines(compared.base), compared.tape, compared); err != nil {
				return nil, err
			}
		}
		limit, err := measure(o, base, testbed.Null, tape, nil)
		if err != nil {
			return nil, err
		}
		rounds, limits = append(rounds, r), append(limits, limit)
		res.Rounds = append(res.Rounds, r.Mpps())
	}
	res.Limit = testbed.Median(limits).Mpps()
	median := testbed.Median(rounds)
	res.Engine, res.Mpps, res.Stages = median.Engine, median.Mpps(), median.Stages
	if compared != nil {
		res.Logical, res.VLANs, res.Physical = o.Logical, o.VLANs, testbed.Median(physical).Mpps()
	}
	res.NsPacket = 1e3 * float64(c.Offered()) / res.Mpps
	res.CPU = median.CPU
	if c.NICs == 0 {
		res.CPU -= res.Stages[dataplane.StageWait.String()] + res.Stages[dataplane.StageTx.String()]
	}
	return res, nil
}

// engines returns the measured engines.
func (o *Options) engines(base *fib.FIB) testbed.Engines {
	partialChecksums := make([]bool, batch.MaxPorts)
	if o.Engine != "gpu" {
		return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
			return func(_ int, mem []byte) (dataplane.Engine, error) { return cpu.New(base, mem, partialChecksums), nil }, func() error { return nil }, nil
		}
	}
	return o.Testbed.OnGPUs(base, gpu.Options{Timeout: o.Timeout, PartialChecksums: partialChecksums}, func(_ int, mem []byte) *cpu.Engine {
		return cpu.New(base, mem, partialChecksums)
	})
}

// measure runs the router at full rate, by logical ports unless l is nil, and returns the traffic of o.Duration.
func measure(o Options, base *fib.FIB, engines testbed.Engines, tape *memport.Recording, l *logical) (r testbed.Round, err error) {
	b, err := testbed.New(o.Testbed, base, engines)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for i, q := range b.In {
		q.PlayRecording(tape, i*tape.Len()/len(b.In), -1) // workers begin at different frames
	}
	l.add(b)
	if err := b.Start(); err != nil {
		return r, err
	}
	time.Sleep(o.Duration / 10)
	before, start := b.Router.Stats(), time.Now()
	time.Sleep(o.Duration)
	after, elapsed := b.Router.Stats(), time.Since(start)
	b.Stop()
	dropped := after.Ports[0].Dropped()
	for i := range after.Logical {
		dropped += after.Logical[i].Dropped()
	}
	if dropped > 0 {
		return r, fmt.Errorf("%d of %d packets dropped", dropped, after.Ports[0].RxPackets)
	}
	return testbed.NewRound(before, after, elapsed, o.Testbed.Offered()), nil
}
