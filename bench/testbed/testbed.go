// Package testbed is a router on memory ports: it receives on port 0 and transmits on port 1.
package testbed

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// EgressPort is the port that transmits all traffic.
const EgressPort = 1

// Ports is the number of ports without ExpressPort, and MaxPorts with it.
const (
	Ports    = 2
	MaxPorts = 3
)

// Config is the size of a testbed.
type Config struct {
	Workers    int  // each on its own core
	Busy       int  // workers that packets are offered to; 0: all
	NICs       int  // cores that emulate NICs; 0: the workers' cores do
	GPUs       int  // workers are assigned round-robin; 0: no GPU
	Shadow     int  // compare one in so many chunks of a GPU with the CPU's result; 0: none
	Choose     bool // each chunk is given to the engine that is predicted to finish it first
	MaxPackets int  // per chunk
	MaxBytes   int  // per chunk; 0: the router's default
	Chunks     int  // in flight per worker
	Prepared   int  // frames of a worker whose packets are written before the start (memport.Queue.Prepare)

	// Sizes of tiles on a GPU, as in gpu.Options; 0: the router's.
	PlainTile, SecuredBatch int

	// Limits of a GPU, as in gpu.Options, which make it a smaller one, and the warps of a block; 0: the GPU's.
	Multiprocessors, SharedLimit, Warps int

	Driver string // file of the CUDA driver; "" is the installed one

	Gateway *gateway.Gateway // of the engines; nil without IPsec, which has one lane
	Lanes   Lanes            // "": DefaultLanes
	Express bool             // with ExpressPort
}

// Offered returns the number of workers that packets are offered to.
func (c Config) Offered() int { return cmp.Or(c.Busy, c.Workers) }

// Check returns an error if the host has too few cores or GPUs.
func (c Config) Check() error {
	if _, _, err := cores(c); err != nil {
		return err
	}
	return c.checkGPUs()
}

// Engines opens what the engines of a testbed share. newEngine returns the engine of a worker over
// the frames in mem; it is called for one worker after the other. closeAll frees what they share.
type Engines func() (newEngine func(worker int, mem []byte) (dataplane.Engine, error), closeAll func() error, err error)

// Testbed is a router and its queues by worker, without those of workers that no packets are offered to.
// Play and Collect of the queues define its input and output.
type Testbed struct {
	Router  *dataplane.Router
	In, Out []*memport.Queue
	Express []*memport.Queue // of ExpressPort, in and out; none without Config.Express

	memories   []*umem.Memory // by worker
	pools      []*umem.Pool
	prepared   int
	nicCores   []int
	nics       []*memport.NIC
	gomaxprocs int // before the start
	closers    []func() error
}

// New builds a testbed, which the caller starts, stops and closes.
func New(c Config, base *fib.FIB, engines Engines) (*Testbed, error) {
	b := &Testbed{}
	if err := b.build(c, base, engines); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Testbed) build(c Config, base *fib.FIB, engines Engines) error {
	workers, nics, err := cores(c)
	if err != nil {
		return err
	}
	b.nicCores, b.prepared = nics, c.Prepared
	engine, closeEngines, err := engines()
	if err != nil {
		return err
	}
	cfg := dataplane.Config{FIB: base, Ports: Ports, MaxPackets: c.MaxPackets, MaxBytes: c.maxBytes(), MaxDelay: time.Second}
	if c.Express {
		cfg.Ports = MaxPorts
	}
	lanes := c.lanes()
	if lanes != nil {
		if cfg.Lanes, err = lane.Compile(lanes, c.Gateway); err != nil {
			return errors.Join(err, closeEngines())
		}
	}
	if c.NICs > 0 {
		cfg.Spin = time.Second // an emulated NIC can be late
	}
	for i := range c.Workers {
		busy := i < c.Offered()
		frames := 3*memport.RingSize + (c.Chunks+1)*c.MaxPackets + 4*memport.RingSize*len(lanes) // queues of lanes use a quarter
		if c.Express {
			frames += 2 * memport.RingSize
		}
		if busy {
			frames += c.Prepared
		}
		mem, err := umem.New(frames)
		if err != nil {
			return errors.Join(err, closeEngines())
		}
		b.closers = append(b.closers, mem.Close)
		pool := umem.NewPool(mem)
		queues := [][]dataplane.Queue{}
		for port := range uint16(cfg.Ports) {
			q := memport.New(port, mem, pool)
			queues = append(queues, []dataplane.Queue{q})
			if all := [...]*[]*memport.Queue{&b.In, &b.Out, &b.Express}[port]; busy {
				*all = append(*all, q)
			}
		}
		if busy {
			b.memories, b.pools = append(b.memories, mem), append(b.pools, pool)
		}
		e, err := engine(i, mem.Bytes())
		if err != nil {
			return errors.Join(err, closeEngines())
		}
		cfg.Workers = append(cfg.Workers, dataplane.WorkerConfig{
			CPU: workers[i], Memory: mem, Pool: pool, Chunks: batch.NewChunks(c.Chunks, c.MaxPackets), Engine: e,
			Queues: queues,
		})
	}
	b.closers = append(b.closers, closeEngines)
	b.Router, err = dataplane.New(cfg)
	return err
}

// cores returns the cores of the workers, from the last one downwards, and of the NICs, below them.
func cores(c Config) (workers, nics []int, err error) {
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, nil, err
	}
	if n := len(cpus); c.NICs > 0 && c.Workers+c.NICs > n {
		return nil, nil, fmt.Errorf("%d workers and %d emulated NICs need as many cores; this host has %d: use fewer workers or NICs, or no NICs", c.Workers, c.NICs, n)
	}
	for i := range c.Workers + c.NICs {
		cpu := cpus[len(cpus)-1-i%len(cpus)]
		if i < c.Workers {
			workers = append(workers, cpu)
		} else {
			nics = append(nics, cpu)
		}
	}
	return workers, nics, nil
}

// Start writes prepared packets, and starts the NICs and the router, or none of them if it fails.
func (b *Testbed) Start() (err error) {
	b.prepare()
	b.gomaxprocs = runtime.GOMAXPROCS(runtime.NumCPU() + len(b.In) + len(b.nicCores)) // polling goroutines never yield
	defer func() {
		if err != nil {
			b.Stop()
		}
	}()
	// Round-robin: the queues of a worker are on one NIC, or on several if there are more NICs
	// than workers.
	queues := slices.Concat(b.In, b.Out, b.Express)
	for i, cpu := range b.nicCores[:min(len(b.nicCores), len(queues))] {
		var own []*memport.Queue
		for k := i; k < len(queues); k += len(b.nicCores) {
			own = append(own, queues[k])
		}
		nic, err := memport.StartNIC(cpu, own...)
		if err != nil {
			return err
		}
		b.nics = append(b.nics, nic)
	}
	return b.Router.Start()
}

// Stop stops the input, then the router after it has processed what it received, then the NICs.
func (b *Testbed) Stop() {
	for _, q := range b.In {
		q.Pause()
	}
	b.Router.Stop()
	for _, nic := range b.nics {
		nic.Stop()
	}
	b.nics = nil
	runtime.GOMAXPROCS(b.gomaxprocs)
}

// prepare writes the packets of each queue to frames, and leaves transmitted ones unread, if the configuration asks for that.
func (b *Testbed) prepare() {
	if b.prepared == 0 {
		return
	}
	for i, q := range b.In {
		q.Prepare(b.prepared)
		b.Out[i].LeaveUnread()
	}
}

// checkFrames returns an error if a frame is neither free nor in a ring. The router has stopped.
func (b *Testbed) checkFrames() error {
	for w, pool := range b.pools {
		have, want := pool.Len()+b.In[w].Held()+b.Out[w].Held(), b.memories[w].Frames()
		if b.Express != nil {
			have += b.Express[w].Held()
		}
		if have != want {
			return fmt.Errorf("worker %d: %d of %d frames are left", w, have, want)
		}
	}
	return nil
}

// Close frees everything, engines first.
func (b *Testbed) Close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// null is an engine that forwards every packet without reading it.
type null struct{}

// Null returns engines that forward every packet without reading it. Their rate is the limit of the
// memory ports and the workers.
func Null() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
	return func(int, []byte) (dataplane.Engine, error) { return null{}, nil }, func() error { return nil }, nil
}

func (null) Name() string           { return "none" }
func (null) Quiesced() bool         { return true }
func (null) Done(*batch.Chunk) bool { return true }

func (null) Submit(c *batch.Chunk) {
	for i, f := range c.In[:c.N] {
		c.Out[i] = batch.ForwardTo(EgressPort, f.Addr, f.Len)
	}
}
