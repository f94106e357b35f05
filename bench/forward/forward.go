// Package forward measures the whole way of a packet on memory ports: receive,
// engine, order, transmit, with one or more workers and no network card.
//
// Every run is verified before it is timed: the frames that come out are
// compared, byte by byte, with what a linear search over the routes and a plain
// rewrite give.
package forward

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/bench/inplace"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// Options describe a measurement.
type Options struct {
	IPv6       bool
	Engine     string        // cpu or gpu
	Mode       gpu.Mode      // of the GPU engine
	Timeout    time.Duration // of the GPU engine; 0: its own
	Table      string        // random, or one of routes.Names
	Routes     int           // in the table; 0: as many as a table of internal/routes has by itself
	Size       int           // of frames in bytes, FCS not counted
	Workers    int           // each on a core of its own
	Cards      int           // cores that play the network card; 0: each worker's core does so besides
	GPUs       int           // that workers are spread over by turns; 0 with the CPU engine
	Shadow     int           // the CPU repeats one in so many chunks of a GPU; 0: none
	MaxPackets int           // of a chunk
	Chunks     int           // that a worker may have in flight
	Duration   time.Duration // of one round
	Rounds     int           // the median counts
	Seed       uint64
	Driver     string // file of the CUDA driver; "" is the installed one
}

// Result is what a measurement found. Its rate is the median round's.
type Result struct {
	Family     string    `json:"family"`
	Engine     string    `json:"engine"`
	Table      string    `json:"table"`
	Routes     int       `json:"routes"`
	Size       int       `json:"frame_bytes"`
	Workers    int       `json:"workers"`
	Cards      int       `json:"cards"`
	GPUs       int       `json:"gpus"`
	MaxPackets int       `json:"max_packets"`
	Chunks     int       `json:"chunks"` // that a worker may have in flight
	Verified   int       `json:"verified_packets"`
	Mpps       float64   `json:"mpps"`
	Rounds     []float64 `json:"rounds_mpps"`
	NsPacket   float64   `json:"ns_per_packet"` // of one worker
	// CPU is how long of that the worker is at work: with cards, all but the turns in which it
	// finds nothing to do; without, less receiving and sending besides, of which the cards' part
	// is not known. So this is less than the former, by what a worker itself has to do there.
	CPU    float64            `json:"cpu_ns_per_packet"`
	Stages map[string]float64 `json:"stage_ns_per_packet"`
	// Limit is the rate of the same loop and ports with an engine that forwards
	// unseen: what is left is the memory ports' copying and the worker's own work.
	Limit float64 `json:"limit_mpps"`
	// InPlace is the rate at which GPUs, as many at once, read and write back heads of frames,
	// and do nothing else.
	InPlace float64 `json:"in_place_mpps,omitempty"`
}

// variety is how many different frames are played in turn: few enough for a
// cache with the random table, and many with larger ones.
func (o *Options) variety() int {
	if o.Table == "random" {
		return 16384
	}
	return 1 << 19
}

// Run verifies, then measures.
func Run(o Options) (*Result, error) {
	if err := o.bed().Check(); err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(o.Seed, 0))
	routes, err := bed.Routes(rnd, o.Table, o.IPv6, o.Routes, o.Seed)
	if err != nil {
		return nil, err
	}
	base, err := bed.NewFIB(routes, 1500)
	if err != nil {
		return nil, err
	}
	play := frames(rnd, routes, o.variety(), o.Size)
	tape := memport.Record(play)

	res := &Result{
		Family: "IPv4", Table: o.Table, Routes: len(routes), Size: o.Size, Workers: o.Workers, Cards: o.Cards, GPUs: o.GPUs,
		MaxPackets: o.MaxPackets, Chunks: o.Chunks, Stages: map[string]float64{},
	}
	if o.IPv6 {
		res.Family = "IPv6"
	}
	if res.Verified, err = verify(o, base, routes, play); err != nil {
		return nil, fmt.Errorf("verify before measuring: %w", err)
	}
	if o.Engine == "gpu" { // 64 bytes that hold the headers, and the half of them that changes
		rates, err := inplace.Rates(o.Driver, o.GPUs, []inplace.Shape{{At: umem.DataOffset - umem.Headroom, Read: 64, Back: 32}})
		if err != nil {
			return nil, err
		}
		res.InPlace = rates[0]
	}
	var rounds, limits []round
	for range o.Rounds { // taking turns, so that both meet the same machine
		for _, m := range []struct {
			engine bed.Maker
			rounds *[]round
		}{{o.engine(base), &rounds}, {bed.Blind, &limits}} {
			r, err := measure(o, base, m.engine, tape)
			if err != nil {
				return nil, err
			}
			*m.rounds = append(*m.rounds, r)
		}
	}
	for _, r := range rounds {
		res.Rounds = append(res.Rounds, r.mpps())
	}
	res.Limit = median(limits).mpps()
	median := median(rounds)
	res.Engine, res.Mpps = median.engine, median.mpps()
	res.NsPacket = 1e3 * float64(o.Workers) / res.Mpps
	res.Stages = median.stages
	res.CPU = res.NsPacket - median.idle
	if o.Cards == 0 {
		res.CPU -= res.Stages[dataplane.StageWait.String()] + res.Stages[dataplane.StageTx.String()]
	}
	return res, nil
}

func median(rounds []round) round {
	rounds = slices.SortedFunc(slices.Values(rounds), func(a, b round) int { return cmp.Compare(a.mpps(), b.mpps()) })
	return rounds[len(rounds)/2]
}

// bed is the shape of the router.
func (o *Options) bed() bed.Config {
	return bed.Config{Workers: o.Workers, Cards: o.Cards, GPUs: o.GPUs, Shadow: o.Shadow, MaxPackets: o.MaxPackets, Chunks: o.Chunks, Driver: o.Driver}
}

// engine is the maker of the engine that is measured.
func (o *Options) engine(base *fib.FIB) bed.Maker {
	repair := make([]bool, bed.Ports)
	if o.Engine != "gpu" {
		return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
			return func(_ int, mem []byte) (dataplane.Engine, error) { return cpu.New(base, mem, repair), nil }, func() error { return nil }, nil
		}
	}
	return o.bed().OnGPUs(base, gpu.Options{Mode: o.Mode, Timeout: o.Timeout, Repair: repair}, func(_ int, mem []byte) *cpu.Engine {
		return cpu.New(base, mem, repair)
	})
}

// round is one timed run.
type round struct {
	engine  string
	packets uint64
	seconds float64
	stages  map[string]float64 // ns per packet
	idle    float64            // ns per packet
}

func (r round) mpps() float64 { return float64(r.packets) / r.seconds / 1e6 }

// measure runs the router at full speed, and counts between two moments at which
// it is at speed.
func measure(o Options, base *fib.FIB, engine bed.Maker, tape *memport.Tape) (r round, err error) {
	b, err := bed.New(o.bed(), base, engine)
	if err != nil {
		return round{}, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for i, q := range b.In {
		q.PlayTape(tape, i*tape.Len()/len(b.In), -1) // so that workers differ
	}
	if err := b.Start(); err != nil {
		return round{}, err
	}
	time.Sleep(o.Duration / 10)
	before, start := b.Router.Stats(), time.Now()
	time.Sleep(o.Duration)
	after, elapsed := b.Router.Stats(), time.Since(start)
	b.Stop()

	r = round{
		engine: after.Engine, seconds: elapsed.Seconds(), stages: map[string]float64{},
		packets: after.Ports[bed.EgressPort].TxPackets - before.Ports[bed.EgressPort].TxPackets,
	}
	for s := range dataplane.Stage(dataplane.NumStages) {
		after.Stages[s].Sub(&before.Stages[s])
		r.stages[s.String()] = float64(after.Stages[s].Sum) / float64(r.packets)
	}
	r.idle = float64(after.Idle-before.Idle) / float64(r.packets)
	if dropped := after.Ports[0].Dropped(); dropped > 0 {
		return r, fmt.Errorf("%d of %d packets were dropped while measuring", dropped, after.Ports[0].RxPackets)
	}
	return r, nil
}
