// Package bed is a router on memory ports, to measure: frames come in by port 0
// and leave by port 1.
package bed

import (
	"errors"
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
	MaxPackets int // of a chunk
	Chunks     int // that a worker may have in flight
}

// Maker makes the engines of a bed's workers, a worker after another, over the
// frames in mem. close gives back what they share.
type Maker func() (make func(worker int, mem []byte) (dataplane.Engine, error), close func() error, err error)

// Bed is a router, not started, and its queues by worker. Play and Collect say
// what goes in and where it comes out.
type Bed struct {
	Router  *dataplane.Router
	In, Out []*memport.Queue
	closers []func() error
}

// New builds a bed. It is to be closed when its router has stopped.
func New(c Config, base *fib.FIB, engines Maker) (*Bed, error) {
	b := &Bed{}
	if err := b.build(c, base, engines); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bed) build(c Config, base *fib.FIB, engines Maker) error {
	cpus, err := affinity.CPUs()
	if err != nil {
		return err
	}
	engine, closeEngines, err := engines()
	if err != nil {
		return err
	}
	cfg := dataplane.Config{FIB: base, Ports: Ports, MaxPackets: c.MaxPackets, MaxDelay: time.Second}
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
			CPU: cpus[len(cpus)-1-i%len(cpus)], Memory: mem, Pool: pool, Chunks: slab, Engine: e,
			Queues: [][]dataplane.Queue{{in}, {out}},
		})
	}
	b.closers = append(b.closers, closeEngines)
	b.Router, err = dataplane.New(cfg)
	return err
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
func (blind) Done(*batch.Chunk) bool { return true }

func (blind) Submit(c *batch.Chunk) {
	for i, f := range c.In[:c.N] {
		c.Out[i] = batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(EgressPort)}
	}
}
