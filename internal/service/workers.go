package service

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/addresses"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/packet/icmp"
)

// Real-time priorities with `napi: thread`. The NAPI thread runs when the worker on its core
// sleeps, so that it receives no more than the worker can process.
const (
	workerPriority = 2
	napiPriority   = 1
)

// createWorkers creates the engines and the workers, with all that they use.
func (s *Service) createWorkers() error {
	cpus, err := affinity.CPUs()
	if err != nil {
		return err
	}
	lanes, err := s.compileLanes()
	if err != nil {
		return err
	}
	cfg := dataplane.Config{
		FIB: s.fib, Ports: len(s.ports.configured),
		Lanes: lanes, MaxPackets: s.maxPackets(s.cfg), MaxBytes: s.maxBytes(s.cfg), MaxInFlight: s.cfg.Batch.MaxInFlight, MaxDelay: s.cfg.Batch.MaxDelay, Spin: s.cfg.BusyPoll,
		Unresolved: s.mirror.Resolve, Limits: errorLimits(s.cfg.ICMP),
	}
	partialChecksums := s.partialChecksums
	cfg.Confine = s.confine.Worker
	cfg.PartialChecksums, cfg.HostShare = partialChecksums, s.cfg.Exit.Share
	if s.ipsec != nil {
		cfg.ExitAnswers = s.ipsec.gateway.AnswersInPlaintext
	}
	for i, m := range s.memory.workers {
		w, err := s.newWorker(i, m, s.cores.home[i], partialChecksums)
		if err != nil {
			return err
		}
		cfg.Workers = append(cfg.Workers, w)
	}
	// A polling worker occupies one of the scheduler's processors; the rest of the program
	// keeps as many as there are cores.
	runtime.GOMAXPROCS(len(cpus) + len(s.memory.workers))
	if s.router, err = dataplane.New(cfg); err != nil {
		return err
	}
	s.addVLANs()
	s.closers.push("stop workers", func() error {
		s.router.Stop()
		s.last = s.Snapshot()
		return nil
	})
	if err := s.watchAddresses(); err != nil {
		return err
	}
	if err := s.startRPF(); err != nil {
		return err
	}
	if s.confine.Process != nil {
		return s.confine.Process()
	}
	return nil
}

// runWorkers starts the workers.
func (s *Service) runWorkers() error {
	if err := s.router.Start(); err != nil {
		return err
	}
	s.closers.push("detach ports", s.ports.Detach) // no more frames arrive, and workers drain the queues
	return nil
}

func (s *Service) newWorker(i int, m afxdp.WorkerMemory, cpu int, partialChecksums []bool) (w dataplane.WorkerConfig, err error) {
	engine, err := s.newEngine(i, m.Memory, partialChecksums)
	if err != nil {
		return w, fmt.Errorf("start engine %s for worker %d: %w", s.engine.state.Name, i, err)
	}
	w = dataplane.WorkerConfig{CPU: cpu, Memory: m.Memory, Pool: m.Pool, Chunks: batch.NewChunks(s.memory.chunks, s.memory.room), Engine: engine}
	if s.tun != nil {
		w.Host = s.tun.Queues()[i]
	}
	if s.exit != nil {
		w.Exit = s.exit.Queues()[i]
	}
	if s.cfg.NAPI == config.NAPIThread {
		w.Priority = workerPriority
	}
	w.Queues = make([][]dataplane.Queue, len(s.ports.configured))
	for number, p := range s.ports.all() {
		w.Queues[number] = queuesOf(p, i)
		s.ports.sockets[p.Name] += len(w.Queues[number])
	}
	return w, nil
}

// queuesOf returns a worker's queues of a port.
func queuesOf(p *afxdp.Port, worker int) (queues []dataplane.Queue) {
	for _, q := range p.Queues(worker) {
		queues = append(queues, q)
	}
	return queues
}

// errorLimits are the rate limits of ICMP errors.
func errorLimits(c config.ICMP) icmp.Limits {
	return icmp.Limits{
		Global: icmp.Rate{PerSecond: c.PerSecond, Burst: c.Burst},
		Source: icmp.Rate{PerSecond: c.SourcePerSecond, Burst: c.SourceBurst},
	}
}

// watchAddresses keeps the source addresses of ICMP errors those of the ports.
func (s *Service) watchAddresses() (err error) {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	var interfaces []int
	for _, p := range s.ports.all() {
		interfaces = append(interfaces, p.Ifindex)
	}
	s.ports.addresses, err = addresses.Watch(interfaces, func(port int, ipv4, ipv6 netip.Addr) {
		s.router.SetAddresses(port, dataplane.Addresses{IPv4: ipv4, IPv6: ipv6})
	})
	if err == nil {
		for number, p := range s.ports.logical {
			s.ports.addresses.Replace(number, p.Ifindex)
		}
		s.closers.push("stop following addresses", infallible(s.ports.addresses.Close))
	}
	return err
}

// threadNAPI moves the receive work of the ports to the workers' cores.
func (s *Service) threadNAPI() error {
	if s.cfg.NAPI != config.NAPIThread {
		return nil
	}
	s.closers.push("restore NAPI", s.unthreadNAPI) // while the ports still have NAPI
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	s.ports.restoreNAPI = map[int]func() error{}
	for number, p := range s.ports.all() {
		restore, err := s.threadPort(p)
		if err != nil {
			return err
		}
		s.ports.restoreNAPI[number] = restore
	}
	return nil
}

func (s *Service) unthreadNAPI() error {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	var errs []error
	for number, restore := range s.ports.restoreNAPI {
		if err := restore(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.ports.configured[number].Interface, err))
		}
	}
	clear(s.ports.restoreNAPI)
	return errors.Join(errs...)
}

func (s *Service) threadPort(p *afxdp.Port) (restore func() error, err error) {
	return netdev.ThreadNAPI(p.Name, p.Ifindex, s.cores.of, napiPriority)
}
