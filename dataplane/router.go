// Package dataplane moves packets: workers receive them from the queues of the ports, have an engine
// decide on them in chunks, and transmit them.
//
// The caller (internal/service) passes a Router its parts: queues, which are AF_XDP sockets (package
// afxdp) or memory (package memport); engines; and the FIB, which the control plane updates. A Router
// reads no configuration and calls no Linux interface of its own.
package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/icmp"
	"github.com/warproute/warproute/umem"
)

// Config describes a router.
type Config struct {
	FIB     *fib.FIB
	Ports   int // physical port numbers: 0 to Ports-1
	Workers []WorkerConfig

	Lanes       *lane.Lanes   // of packets; nil for one lane
	MaxPackets  int           // per chunk
	MaxBytes    int           // of the received packets of a chunk, if there are several, without FCS; 0 for any number
	MaxInFlight int           // chunks of the last lane that the engine has at a time; 0 for as many as there are
	MaxDelay    time.Duration // from the first packet of a chunk to its submission
	Spin        time.Duration // polling of empty rings before a worker sleeps; 0 sleeps at once
	Limits      icmp.Limits   // rate limits of ICMP errors, all workers together; the zero value is icmp.DefaultLimits

	// Unresolved asks for a neighbor: the next hop of the adjacency, or dst if the adjacency is
	// that of a directly connected network. Workers call it; it must not block.
	Unresolved func(adjacency uint32, dst netip.Addr)

	PartialChecksums []bool // by port: senders may leave L4 checksums incomplete; nil for no port
	HostShare        int    // percent of a worker's busy time for packets to the host; 0 for DefaultHostShare

	// ExitAnswers is set on an IPsec gateway, where only packets that the policies admit in plaintext exit by Linux.
	// It reports whether answers to a packet, such as ICMP errors of Linux, may leave in plaintext. Workers call it.
	ExitAnswers func(packet []byte) bool

	// Confine restricts the calling thread to the system calls of a worker; nil restricts nothing. A restricted thread ends
	// with its worker.
	Confine func() error
}

// DefaultHostShare is the default of Config.HostShare, in percent.
const DefaultHostShare = 50

// WorkerConfig lists the resources that one worker owns.
type WorkerConfig struct {
	CPU      int // or affinity.Any
	Priority int // SCHED_FIFO, 1 to 99; 0 for SCHED_OTHER
	Memory   *umem.Memory
	Pool     *umem.Pool
	Engine   Engine
	Chunks   []*batch.Chunk // chunks in flight, each of MaxPackets or as many as Set will ask for
	Queues   [][]Queue      // by port; the first transmits, all receive; none for a number without a port (see Router.OpenPort)

	Host HostQueue // of ipsec.interface; may be nil: inner packets of tunnels for the host are dropped
	Exit HostQueue // of the interface on which Linux forwards; may be nil: packets without a port are dropped
}

// Router is a set of workers.
type Router struct {
	workers   []*worker
	fib       *fib.FIB
	ports     int // physical port numbers
	physical  physicalRegistry
	logical   logicalRegistry
	addresses []atomic.Pointer[Addresses] // by port
	confine   func() error
	started   int        // running workers
	calling   sync.Mutex // held during callWorkers
	captures  captures
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
	r := &Router{fib: cfg.FIB, ports: cfg.Ports, confine: cfg.Confine, addresses: make([]atomic.Pointer[Addresses], batch.MaxPorts)}
	r.logical.ports, r.logical.former = map[uint16]*registered{}, map[uint16]*PortStats{}
	r.physical.ports = make([]physicalPort, cfg.Ports)
	for i, wc := range cfg.Workers {
		w, err := newWorker(cfg, wc)
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", i, err)
		}
		w.index, w.slow.icmp.addresses = i, r.addresses
		w.slow.frag.id = rand.Uint32()>>8 | uint32(i)<<24 // distinct from other workers' IDs
		r.workers = append(r.workers, w)
		for _, p := range w.open {
			r.physical.ports[p].open = true
		}
	}
	for _, w := range r.workers {
		if !slices.Equal(w.open, r.workers[0].open) {
			return nil, fmt.Errorf("worker %d: has queues of the ports %v, and worker 0 of %v", w.index, w.open, r.workers[0].open)
		}
	}
	return r, nil
}

func newWorker(cfg Config, wc WorkerConfig) (*worker, error) {
	if len(wc.Queues) != cfg.Ports {
		return nil, fmt.Errorf("has queues of %d ports, not of %d", len(wc.Queues), cfg.Ports)
	}
	if len(wc.Chunks) == 0 || len(wc.Chunks[0].In) < cfg.MaxPackets || cfg.MaxPackets < 1 {
		return nil, fmt.Errorf("its chunks do not hold max_packets, %d", cfg.MaxPackets)
	}
	chunkLen := len(wc.Chunks[0].In)
	w := &worker{
		cpu: wc.CPU, priority: wc.Priority, fib: cfg.FIB, reader: cfg.FIB.NewReader(),
		mem: wc.Memory.Bytes(), pool: wc.Pool, engine: wc.Engine,
		free:     append([]*batch.Chunk(nil), wc.Chunks...),
		withheld: make([]uint32, 0, len(wc.Chunks)*chunkLen),
		counters: make([]portCounters, cfg.Ports),
		tx:       make([]egress, cfg.Ports),
		chunkLen: chunkLen,
		rx:       receiver{tallies: make([]tally, cfg.Ports)},
		drops:    newDropTally(cfg.Ports),
		done:     make(chan struct{}),
	}
	if cfg.Lanes != nil {
		w.lanes = newLanes(cfg.Lanes.All(), len(wc.Chunks), wc.Memory.Frames())
		w.sorter.Classifier = cfg.Lanes.NewClassifier()
	} else {
		w.lanes = newLanes(nil, len(wc.Chunks), wc.Memory.Frames())
	}
	if len(wc.Chunks) < len(w.lanes) {
		return nil, fmt.Errorf("has %d chunks, and each of %d lanes needs one", len(wc.Chunks), len(w.lanes))
	}
	w.reserved = max(1, len(wc.Chunks)/(2*len(w.lanes)))
	w.stats.frames = int64(wc.Memory.Frames())
	w.stats.free.Store(int64(w.pool.Len()))
	w.slow.engine, _ = wc.Engine.(ReassembledEngine)
	w.pressure, _ = wc.Engine.(Backpressure)
	w.slow.maxLen = umem.MaxMTU
	if wc.Memory.Large() > 0 {
		w.slow.maxLen = umem.MaxLargeMTU
	}
	w.rx.maxFrame = packet.EthernetLen + w.slow.maxLen
	w.logical = newLogicalPorts(cfg.FIB.VLANs, w.rx.maxFrame+fib.MaxTags*fib.TagLen)
	w.pending.resolve, w.pending.seed = cfg.Unresolved, maphash.MakeSeed()
	for p, queues := range wc.Queues {
		if len(queues) > 0 {
			w.tx[p] = w.newEgress(queues)
			w.queues = append(w.queues, portQueues{port: p, all: queues})
		}
	}
	w.host, w.exit = newHostPath(wc.Host, chunkLen), newHostPath(wc.Exit, chunkLen)
	w.arrange()
	w.exitAnswers, w.partialChecksums = cfg.ExitAnswers, cfg.PartialChecksums
	if w.partialChecksums == nil {
		w.partialChecksums = make([]bool, batch.MaxPorts)
	}
	w.hostTime.share = cmp.Or(cfg.HostShare, DefaultHostShare)
	w.set(Settings{cfg.MaxPackets, cfg.MaxBytes, cfg.MaxInFlight, cfg.MaxDelay, cfg.Spin, cfg.Limits}, len(cfg.Workers))
	return w, nil
}

// SetAddresses sets the source addresses of ICMP errors about packets that a port received. It may be
// called at any time.
func (r *Router) SetAddresses(port int, a Addresses) { r.addresses[port].Store(&a) }

// Start starts the workers. After an error, none is running.
func (r *Router) Start() error {
	pinned := make(chan error)
	for i, w := range r.workers {
		go func() {
			defer close(w.done)
			restore, err := affinity.Pin(w.cpu)
			if err == nil {
				err = affinity.Prioritize(w.priority)
			}
			w.thread = unix.Gettid()
			if err == nil && r.confine != nil {
				err = r.confine()
			}
			pinned <- err
			if err == nil {
				w.run()
			}
			if restore != nil && w.priority == 0 && r.confine == nil { // other threads stay locked and exit
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

// Threads returns the IDs of the threads of the running workers.
func (r *Router) Threads() (ids []int) {
	for _, w := range r.workers[:r.started] {
		ids = append(ids, w.thread)
	}
	return ids
}

// Stop has the workers process what they have received and waits for them. Detach the ports first, so
// that no packet arrives meanwhile.
func (r *Router) Stop() {
	for _, w := range r.workers[:r.started] {
		w.stop.Store(true)
	}
	for _, w := range r.workers[:r.started] {
		w.awaitEnd()
	}
}

// awaitEnd waits for the end of a worker, which may sleep. SIGURG interrupts it, which Go's runtime uses for the
// same and ignores otherwise.
func (w *worker) awaitEnd() {
	for {
		select {
		case <-w.done:
			return
		case <-time.After(time.Millisecond):
			_ = unix.Tgkill(unix.Getpid(), w.thread, unix.SIGURG)
		}
	}
}
