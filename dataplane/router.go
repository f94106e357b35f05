// Package dataplane moves packets: workers receive them from the queues of the
// ports, have an engine decide on them by the chunk, and transmit them.
//
// A Router is given its parts by whoever wires it (internal/service): queues, which
// may be AF_XDP sockets or memory; engines; the forwarding base that the control
// plane keeps. It knows no configuration and no Linux.
package dataplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/packet/icmp"
	"github.com/warproute/warproute/umem"
)

// Config describes a router.
type Config struct {
	FIB     *fib.FIB
	Ports   int // number of ports
	Workers []WorkerConfig

	MaxPackets int           // of a chunk
	MaxDelay   time.Duration // that a packet waits for its chunk to fill, at most
	Spin       time.Duration // that a worker polls empty rings before it sleeps; 0: sleeps at once
	Limits     icmp.Limits   // of the errors that all workers send together; the zero Limits are icmp.DefaultLimits

	// Unresolved is told that packets wait for a neighbour: the one that the
	// adjacency stands for, or dst itself where the adjacency is that of a
	// directly connected network. It is called by workers and must not block.
	Unresolved func(adjacency uint32, dst netip.Addr)

	Local Local // may be nil: what arrives in tunnels for the host is dropped
}

// WorkerConfig is what one worker owns.
type WorkerConfig struct {
	CPU      int // or affinity.Any
	Priority int // real-time, 1 to 99; 0: an ordinary thread
	Memory   *umem.Memory
	Pool     *umem.Pool
	Engine   Engine
	Chunks   *batch.Slab // of MaxPackets or more each, as far as Set is to go; as many as may be with the engine at once
	Queues   [][]Queue   // by port: at least one each; the first transmits, all receive
}

// Router is a set of workers.
type Router struct {
	workers   []*worker
	ports     int
	addresses []atomic.Pointer[Addresses] // by port
	started   int                         // workers running
	calling   sync.Mutex                  // held by each
	taps      taps
}

// New checks the configuration and prepares the workers.
func New(cfg Config) (*Router, error) {
	switch {
	case cfg.Ports < 1 || cfg.Ports > batch.MaxPorts:
		return nil, fmt.Errorf("router with %d ports: 1 to %d are possible", cfg.Ports, batch.MaxPorts)
	case len(cfg.Workers) == 0:
		return nil, errors.New("router without workers")
	}
	if cfg.Unresolved == nil {
		cfg.Unresolved = func(uint32, netip.Addr) {}
	}
	if cfg.Limits == (icmp.Limits{}) {
		cfg.Limits = icmp.DefaultLimits
	}
	r := &Router{ports: cfg.Ports, addresses: make([]atomic.Pointer[Addresses], cfg.Ports)}
	for i, wc := range cfg.Workers {
		w, err := newWorker(cfg, wc)
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", i, err)
		}
		w.errands.addresses = r.addresses
		w.local = cfg.Local
		if i == 0 && w.local != nil {
			w.takes = true
			w.pollFD = append(w.pollFD, unix.PollFd{Fd: int32(w.local.FD()), Events: unix.POLLIN})
		}
		w.errands.fragmentID = rand.Uint32()>>8 | uint32(i)<<24 // apart from other workers'
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// share is a worker's of a rate, which is none only where the rate is.
func share(rate, workers int) int { return (rate + workers - 1) / workers }

func newWorker(cfg Config, wc WorkerConfig) (*worker, error) {
	if len(wc.Queues) != cfg.Ports {
		return nil, fmt.Errorf("has queues of %d ports, not of %d", len(wc.Queues), cfg.Ports)
	}
	if len(wc.Chunks.Chunks) == 0 || len(wc.Chunks.Chunks[0].In) < cfg.MaxPackets || cfg.MaxPackets < 1 {
		return nil, fmt.Errorf("its chunks do not hold max_packets, %d", cfg.MaxPackets)
	}
	w := &worker{
		cpu: wc.CPU, priority: wc.Priority, fib: cfg.FIB, reader: cfg.FIB.NewReader(),
		mem: wc.Memory.Bytes(), frames: int64(wc.Memory.Frames()), pool: wc.Pool, engine: wc.Engine,
		free:     append([]*batch.Chunk(nil), wc.Chunks.Chunks...),
		inFlight: fifo{ring: make([]*batch.Chunk, len(wc.Chunks.Chunks))},
		counters: make([]portCounters, cfg.Ports),
		received: make([]tally, cfg.Ports),
		drops:    dropTally{counts: make([][batch.NumReasons]uint32, cfg.Ports)},
		done:     make(chan struct{}),
	}
	w.stats.free.Store(int64(w.pool.Len()))
	w.room = len(w.free[0].In)
	w.withheld = make([]uint32, 0, len(w.free)*w.room)
	w.datagrams, _ = wc.Engine.(Datagrams)
	w.largest = largestPacket(wc.Memory)
	w.hold.ask = cfg.Unresolved
	for p, queues := range wc.Queues {
		if len(queues) == 0 {
			return nil, fmt.Errorf("has no queue of port %d", p)
		}
		w.tx = append(w.tx, egress{queue: queues[0], frames: make([]batch.Frame, w.room)})
		for _, q := range queues {
			w.rx = append(w.rx, q)
			if fd := q.FD(); fd >= 0 {
				w.pollFD = append(w.pollFD, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
	}
	w.set(Settings{cfg.MaxPackets, cfg.MaxDelay, cfg.Spin, cfg.Limits}, len(cfg.Workers))
	return w, nil
}

// SetAddresses says by which addresses the router speaks of packets that it received
// from a port. It may be called at any time.
func (r *Router) SetAddresses(port int, a Addresses) { r.addresses[port].Store(&a) }

// Start sets the workers to work. An error means that none is running.
func (r *Router) Start() error {
	pinned := make(chan error)
	for i, w := range r.workers {
		go func() {
			defer close(w.done)
			restore, err := affinity.Pin(w.cpu)
			if err == nil {
				err = affinity.Prioritize(w.priority)
			}
			pinned <- err
			if err == nil {
				w.run()
			}
			if restore != nil && w.priority == 0 { // a real-time thread is not given back: it dies with us
				restore()
			}
		}()
		if err := <-pinned; err != nil {
			r.Stop()
			return fmt.Errorf("start worker %d: %w", i, err)
		}
		r.started++
	}
	return nil
}

// Stop lets the workers finish what they have received and waits for them. For
// nothing to be lost, no more frames may arrive: detach the ports before.
func (r *Router) Stop() {
	for _, w := range r.workers[:r.started] {
		w.stop.Store(true)
	}
	for _, w := range r.workers[:r.started] {
		<-w.done
	}
}

// Stats adds up the counts of all workers. It may be called at any time.
func (r *Router) Stats() *Stats {
	s := &Stats{Ports: make([]PortStats, r.ports), Workers: len(r.workers), Engine: r.workers[0].engine.Name(), Frames: r.Frames()}
	for _, w := range r.workers {
		for p := range w.counters {
			c, sum := &w.counters[p], &s.Ports[p]
			sum.RxPackets += c.rxPackets.Load()
			sum.RxBytes += c.rxBytes.Load()
			sum.TxPackets += c.txPackets.Load()
			sum.TxBytes += c.txBytes.Load()
			for r := range c.drops {
				sum.Drops[r] += c.drops[r].Load()
			}
		}
		s.Chunks += w.stats.chunks.Load()
		s.Held += w.stats.held.Load()
		s.Pending += w.stats.pending.Load()
		s.Idle += time.Duration(w.stats.idle.Load())
		s.InFlight += w.stats.flying.Load()
		s.Made += w.stats.made.Load()
		s.Merged += w.stats.merged.Load()
		s.Delivered += w.stats.delivered.Load()
		w.stats.packets.AddTo(&s.Packets)
		for i := range w.stats.stages {
			w.stats.stages[i].AddTo(&s.Stages[i])
		}
	}
	return s
}
