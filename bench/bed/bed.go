// Package bed is a router on memory ports, to measure: frames come in by port 0
// and leave by port 1.
package bed

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// EgressPort is the port by which all traffic leaves.
const EgressPort = 1

// Ports is how many ports there are.
const Ports = 2

// Config is the shape of a bed.
type Config struct {
	Workers    int // each on a core of its own
	Cards      int // cores that play the network card; 0: each worker's core does so besides
	GPUs       int // that workers are spread over by turns; 0: there is none
	Shadow     int // the CPU repeats one in so many chunks of a GPU; 0: none
	MaxPackets int // of a chunk
	Chunks     int // that a worker may have in flight

	Driver string // file of the CUDA driver; "" is the installed one
}

// Check is an error where the host has too few cores or GPUs, which is known before anything
// is prepared.
func (c Config) Check() error {
	if _, _, err := cores(c); err != nil {
		return err
	}
	return c.checkGPUs()
}

// Maker makes the engines of a bed's workers, a worker after another, over the
// frames in mem. close gives back what they share.
type Maker func() (make func(worker int, mem []byte) (dataplane.Engine, error), close func() error, err error)

// Bed is a router, not started, and its queues by worker. Play and Collect say
// what goes in and where it comes out.
type Bed struct {
	Router  *dataplane.Router
	In, Out []*memport.Queue

	cards      []int // the cores that play them
	playing    []*memport.Card
	processors int // that Go had before
	closers    []func() error
}

// New builds a bed. It is to be closed when it has stopped.
func New(c Config, base *fib.FIB, engines Maker) (*Bed, error) {
	b := &Bed{}
	if err := b.build(c, base, engines); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bed) build(c Config, base *fib.FIB, engines Maker) error {
	workers, cards, err := cores(c)
	if err != nil {
		return err
	}
	b.cards = cards
	engine, closeEngines, err := engines()
	if err != nil {
		return err
	}
	cfg := dataplane.Config{FIB: base, Ports: Ports, MaxPackets: c.MaxPackets, MaxDelay: time.Second}
	if c.Cards > 0 {
		cfg.Spin = time.Second // a card may be late
	}
	for i := range c.Workers {
		mem, err := umem.New(3*2048 + (c.Chunks+1)*c.MaxPackets)
		if err != nil {
			return errors.Join(err, closeEngines())
		}
		b.closers = append(b.closers, mem.Close)
		slab, err := batch.NewSlab(c.Chunks, c.MaxPackets)
		if err != nil {
			return errors.Join(err, closeEngines())
		}
		b.closers = append(b.closers, slab.Close)
		pool := umem.NewPool(mem)
		in, out := memport.New(0, mem, pool), memport.New(EgressPort, mem, pool)
		b.In, b.Out = append(b.In, in), append(b.Out, out)
		e, err := engine(i, mem.Bytes())
		if err != nil {
			return errors.Join(err, closeEngines())
		}
		cfg.Workers = append(cfg.Workers, dataplane.WorkerConfig{
			CPU: workers[i], Memory: mem, Pool: pool, Chunks: slab, Engine: e,
			Queues: [][]dataplane.Queue{{in}, {out}},
		})
	}
	b.closers = append(b.closers, closeEngines)
	b.Router, err = dataplane.New(cfg)
	return err
}

// cores returns the core of each worker, from the last one on, and those of the cards, which
// are before them.
func cores(c Config) (workers, cards []int, err error) {
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, nil, err
	}
	if n := len(cpus); c.Cards > 0 && c.Workers+c.Cards > n {
		return nil, nil, fmt.Errorf("find cores of their own for workers (%d) and cards (%d): there are %d; take fewer workers or cards, or no cards, for which the workers' cores stand in", c.Workers, c.Cards, n)
	}
	for i := range c.Workers + c.Cards {
		cpu := cpus[len(cpus)-1-i%len(cpus)]
		if i < c.Workers {
			workers = append(workers, cpu)
		} else {
			cards = append(cards, cpu)
		}
	}
	return workers, cards, nil
}

// Start has the cards and the router work. An error means that none does.
func (b *Bed) Start() (err error) {
	b.processors = runtime.GOMAXPROCS(runtime.NumCPU() + len(b.In) + len(b.cards)) // who polls keeps one
	defer func() {
		if err != nil {
			b.Stop()
		}
	}()
	// Dealt out by turns, a worker's two queues are of one card, or, where there are more cards
	// than workers, of two.
	queues := slices.Concat(b.In, b.Out)
	for i, cpu := range b.cards[:min(len(b.cards), len(queues))] {
		var its []*memport.Queue
		for k := i; k < len(queues); k += len(b.cards) {
			its = append(its, queues[k])
		}
		card, err := memport.StartCard(cpu, its...)
		if err != nil {
			return err
		}
		b.playing = append(b.playing, card)
	}
	return b.Router.Start()
}

// Stop stops the playing, then the router, when it has done what was received, then the cards.
func (b *Bed) Stop() {
	for _, q := range b.In {
		q.Pause()
	}
	b.Router.Stop()
	for _, card := range b.playing {
		card.Stop()
	}
	b.playing = nil
	runtime.GOMAXPROCS(b.processors)
}

// Close gives everything back, engines first.
func (b *Bed) Close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// blind is an engine that sends every packet on without looking at it.
type blind struct{}

// Blind makes engines that send every packet on without looking at it: what is
// left is the memory ports' copying and the worker's own work.
func Blind() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
	return func(int, []byte) (dataplane.Engine, error) { return blind{}, nil }, func() error { return nil }, nil
}

func (blind) Name() string           { return "none" }
func (blind) Quiesced() bool         { return true }
func (blind) Done(*batch.Chunk) bool { return true }

func (blind) Submit(c *batch.Chunk) {
	for i, f := range c.In[:c.N] {
		c.Out[i] = batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(EgressPort)}
	}
}
