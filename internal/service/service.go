// Package service puts the parts of a router together and runs it: what
// `warproute run` does between its flags and its signals.
//
// It opens the ports (afxdp), gives each worker its memory, chunks and engine
// (dataplane), mirrors Linux's routes and neighbours into the forwarding base
// (control/mirror), and answers on the control socket and the metrics address.
package service

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/addresses"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/pathmtu"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/control/vmgenid"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/internal/tun"
	"github.com/warproute/warproute/umem"
)

// Service is a running router.
type Service struct {
	cfg     *config.Config
	log     *slog.Logger
	engine  status.EngineState
	devices *gpu.Devices // nil: the CPU decides
	chunks  int          // of each worker
	room    int          // of each chunk, in packets

	ports     *afxdp.Set
	fib       *fib.FIB
	ipsec     *protection  // nil: nothing is protected
	xfrm      *xfrm.Mirror // nil: the configuration says what to protect
	paths     *pathmtu.Watcher
	guard     *guard.Watcher   // nil: nothing is protected
	copies    *vmgenid.Watcher // of the virtual machine
	tun       *tun.Device      // nil: Linux reaches no tunnels
	addresses *addresses.Watcher
	mirror    *mirror.Mirror
	router    *dataplane.Router
	sources   sources
	control   *socket.Server
	metrics   *metrics.Server
	scrape    http.Handler
	queues    map[string]int // by port's name
	maxMTU    int            // that the workers' frames hold

	unthread []func() error // gives the ports' NAPI back to softirqs
	closers  []func() error // memory, last

	reloads chan ReloadRequest

	mu     sync.Mutex // guards links, locals, config, engine once it runs, and what portBack replaces
	config status.ConfigState
	links  []link              // by port, as the mirror last reported them
	locals map[netip.Addr]bool // addresses that are Linux's

	tapping atomic.Int32   // captures and traces
	ending  chan struct{}  // closed when the router stops
	watched sync.WaitGroup // what watches the ports until then

	ticking chan struct{} // closed when IPsec ends
	ticked  sync.WaitGroup
}

// Start starts a router with a configuration that has been checked. It opens
// its sockets in the network namespace of the calling thread. An error leaves
// nothing behind.
func Start(cfg *config.Config, build metrics.Build, log *slog.Logger) (*Service, error) {
	s := &Service{cfg: cfg, log: log, chunks: config.ChunksWithCPU, queues: map[string]int{}, links: make([]link, len(cfg.Ports)), locals: map[netip.Addr]bool{}, ending: make(chan struct{}), reloads: make(chan ReloadRequest)}
	s.config = status.ConfigState{Loaded: time.Now(), Reloads: map[status.ReloadResult]uint64{}}
	if err := s.start(build); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Service) start(build metrics.Build) (err error) {
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	s.fib = fib.New(binary.LittleEndian.Uint32(seed[:]))
	if err := s.startGuard(); err != nil {
		return err
	}
	if err := s.startIPsec(); err != nil {
		return err
	}
	if err := s.openEngine(); err != nil {
		return err
	}
	workers, err := s.openPorts()
	if err != nil {
		return err
	}
	if err := s.startMirror(); err != nil {
		return err
	}
	if err := s.openInterface(); err != nil {
		return err
	}
	if err := s.followXFRM(len(workers)); err != nil {
		return err
	}
	if err := s.startRouter(workers); err != nil {
		return err
	}
	s.warnOfFilters()
	s.scrape = metrics.Handler(build, s.Snapshot)
	if s.cfg.Metrics.Listen != "" {
		if s.metrics, err = metrics.Serve(s.cfg.Metrics.Listen, s.scrape); err != nil {
			return err
		}
	}
	if s.control, err = socket.Serve(s.cfg.Control.Socket, s.handlers()); err != nil {
		return err
	}
	if s.ipsec != nil {
		if err := s.ports.Guard(); err != nil {
			return err
		}
	}
	return s.ports.Admit() // last: until here Linux has had every frame
}

// openPorts allocates the workers' memory and opens a socket for every queue of
// every port in it.
func (s *Service) openPorts() ([]afxdp.WorkerMemory, error) {
	n, queues, err := countWorkers(s.cfg)
	if err != nil {
		return nil, err
	}
	s.room = config.MaxPackets // so that a reload may raise it
	if s.devices != nil {
		s.room = s.cfg.Batch.MaxPackets // of which a GPU has mailboxes
	}
	ring := uint32(afxdp.DefaultRingSize)
	perWorker := (queues + n - 1) / n
	frames := perWorker*afxdp.FramesPerQueue(ring) + config.ChunkFrames(s.chunks, s.room)
	large, err := largeFrames(s.cfg, perWorker, ring)
	if err != nil {
		return nil, err
	}
	if s.maxMTU = umem.MaxMTU; large > 0 {
		s.maxMTU = umem.MaxLargeMTU
	}
	cfg := afxdp.Config{RingSize: ring, BusyPoll: s.cfg.BusyPoll}
	s.engine.HugePages = true
	for range n {
		mem, err := umem.NewLarge(frames, large)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, mem.Close)
		s.engine.HugePages = s.engine.HugePages && mem.Huge()
		cfg.Workers = append(cfg.Workers, afxdp.WorkerMemory{Memory: mem, Pool: umem.NewPool(mem)})
	}
	for _, p := range s.cfg.Ports {
		mode, err := afxdp.ParseMode(string(p.Mode))
		if err != nil {
			return nil, err
		}
		cfg.Ports = append(cfg.Ports, afxdp.PortConfig{Interface: p.Interface, Mode: mode})
	}
	s.ports, err = s.openSet(cfg)
	return cfg.Workers, err
}

// countWorkers returns how many workers there are to be and how many queues
// they share. Every worker needs a queue of its own on every port to send by.
func countWorkers(cfg *config.Config) (workers, queues int, err error) {
	fewest, port := 0, ""
	for _, p := range cfg.Ports {
		n, _, err := ethtool.Queues(p.Interface)
		if err != nil {
			return 0, 0, err
		}
		queues += n
		if port == "" || n < fewest {
			fewest, port = n, p.Interface
		}
	}
	switch {
	case cfg.Workers == 0:
		return fewest, queues, nil
	case cfg.Workers > fewest:
		return 0, 0, fmt.Errorf("start %d workers: port %s has %d queues, and each worker needs one of its own; set workers to at most %d, or give the port more queues (ethtool -L %s combined %d)",
			cfg.Workers, port, fewest, fewest, port, cfg.Workers)
	}
	return cfg.Workers, queues, nil
}

func (s *Service) startMirror() error {
	var ports []mirror.Port
	for _, p := range s.ports.Ports {
		ports = append(ports, mirror.Port{Name: p.Name, Ifindex: p.Ifindex})
	}
	var err error
	s.mirror, err = mirror.Start(s.fib, ports, mirror.Hooks{
		AddLocal:    s.addLocal,
		DeleteLocal: s.deleteLocal,
		PortChanged: s.portChanged,
		PortGone:    s.portGone,
		PortBack:    s.portBack,
		PortLent:    s.portLent,
		Own:         s.cfg.IPsec.Interface,
	}, s.log)
	return err
}

func (s *Service) startRouter(workers []afxdp.WorkerMemory) error {
	cpus, err := affinity.CPUs()
	if err != nil {
		return err
	}
	repair := repairPorts(s.cfg)
	cfg := dataplane.Config{
		FIB: s.fib, Ports: len(s.cfg.Ports),
		MaxPackets: s.cfg.Batch.MaxPackets, MaxDelay: s.cfg.Batch.MaxDelay, Spin: s.cfg.BusyPoll,
		Unresolved: s.mirror.Resolve, Limits: errorLimits(s.cfg.ICMP),
	}
	if s.tun != nil {
		cfg.Local = s.tun
	}
	for i, m := range workers {
		slab, err := batch.NewSlab(s.chunks, s.room)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, slab.Close)
		engine, err := s.newEngine(i, m.Memory, repair)
		if err != nil {
			return fmt.Errorf("start engine %s for worker %d: %w", s.engine.Name, i, err)
		}
		w := dataplane.WorkerConfig{
			CPU: cpus[len(cpus)-1-i%len(cpus)], Memory: m.Memory, Pool: m.Pool, Chunks: slab, Engine: engine,
		}
		if s.cfg.NAPI == config.NAPIThread {
			w.Priority = workerPriority
		}
		s.engine.Cores = append(s.engine.Cores, w.CPU)
		for _, p := range s.ports.Ports {
			var queues []dataplane.Queue
			for _, q := range p.Queues(i) {
				queues = append(queues, q)
			}
			s.queues[p.Name] += len(queues)
			w.Queues = append(w.Queues, queues)
		}
		cfg.Workers = append(cfg.Workers, w)
	}
	// A worker that polls keeps one of the scheduler's processors to itself;
	// the rest of the program keeps as many as there are cores.
	runtime.GOMAXPROCS(len(cpus) + len(workers))
	if s.router, err = dataplane.New(cfg); err != nil {
		return err
	}
	if err := s.watchAddresses(); err != nil {
		return err
	}
	if err := s.setAllSources(); err != nil {
		return err
	}
	if err := s.router.Start(); err != nil {
		return err
	}
	s.watched.Go(s.watchQueues)
	s.watched.Go(s.watchHealth)
	s.watched.Go(s.watchRefused)
	s.watched.Go(s.followSources)
	if s.cfg.NAPI == config.NAPIThread {
		return s.threadNAPI()
	}
	return nil
}

// watchAddresses has the router speak by the addresses of its ports.
func (s *Service) watchAddresses() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var interfaces []int
	for _, p := range s.ports.Ports {
		interfaces = append(interfaces, p.Ifindex)
	}
	s.addresses, err = addresses.Watch(interfaces, func(port int, ipv4, ipv6 netip.Addr) {
		s.router.SetAddresses(port, dataplane.Addresses{IPv4: ipv4, IPv6: ipv6})
	})
	return err
}

// Stop stops the router: no more frames are taken from the ports, those that
// have been received are sent, and everything is closed. It returns the last
// snapshot, nil where the router had not come that far.
func (s *Service) Stop() *status.Snapshot {
	var last *status.Snapshot
	close(s.ending)
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
	if s.control != nil {
		_ = s.control.Close()
	}
	s.watched.Wait()
	s.mu.Lock()
	for _, restore := range s.unthread { // while the ports still have NAPI
		if err := restore(); err != nil {
			s.log.Error("stop threading", "error", err)
		}
	}
	s.unthread = nil
	s.mu.Unlock()
	if s.ports != nil {
		if err := s.ports.Detach(); err != nil {
			s.log.Error("detach from the ports", "error", err)
		}
	}
	if s.router != nil {
		s.router.Stop()
		last = s.Snapshot()
	}
	if s.tun != nil { // before the mirror, which it asks
		if err := s.tun.Close(); err != nil {
			s.log.Error("close the interface of tunnels", "error", err)
		}
	}
	if s.addresses != nil {
		s.addresses.Close()
	}
	if s.ipsec != nil {
		if err := s.stopIPsec(); err != nil {
			s.log.Error("stop IPsec", "error", err)
		}
	}
	if s.mirror != nil {
		_ = s.mirror.Close()
	}
	if s.ports != nil {
		if err := s.ports.Close(); err != nil {
			s.log.Error("close the ports", "error", err)
		}
	}
	if s.guard != nil {
		s.guard.Close()
	}
	if s.devices != nil { // they reach the memory
		if err := s.devices.Close(); err != nil {
			s.log.Error("close the GPUs", "error", err)
		}
	}
	for _, c := range slices.Backward(s.closers) {
		_ = c()
	}
	return last
}
