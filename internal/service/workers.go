package service

import (
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

// startWorkers creates the engines and starts the workers.
func (s *Service) startWorkers() error {
	cpus, err := affinity.CPUs()
	if err != nil {
		return err
	}
	lanes, err := s.compileLanes()
	if err != nil {
		return err
	}
	cfg := dataplane.Config{
		FIB: s.fib, Ports: len(s.cfg.Ports),
		Lanes: lanes, MaxPackets: s.cfg.Batch.MaxPackets, MaxBytes: s.maxBytes(s.cfg), MaxDelay: s.cfg.Batch.MaxDelay, Spin: s.cfg.BusyPoll,
		Unresolved: s.mirror.Resolve, Limits: errorLimits(s.cfg.ICMP),
	}
	partialChecksums := partialChecksumPorts(s.cfg)
	cfg.PartialChecksums, cfg.HostShare = partialChecksums, s.cfg.Exit.Share
	if s.ipsec != nil {
		cfg.ExitAnswers = s.ipsec.gateway.AnswersInPlaintext
	}
	for i, m := range s.memory.workers {
		w, err := s.newWorker(i, m, cpus[len(cpus)-1-i%len(cpus)], partialChecksums)
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
	s.engine.state.Cores = append(s.engine.state.Cores, cpu)
	for _, p := range s.ports.Ports {
		var queues []dataplane.Queue
		for _, q := range p.Queues(i) {
			queues = append(queues, q)
		}
		s.ports.sockets[p.Name] += len(queues)
		w.Queues = append(w.Queues, queues)
	}
	return w, nil
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
	for _, p := range s.ports.Ports {
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
	for _, p := range s.ports.Ports {
		restore, err := s.threadPort(p)
		if err != nil {
			return err
		}
		s.ports.restoreNAPI.push(p.Name, restore)
	}
	return nil
}

func (s *Service) unthreadNAPI() error {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	return s.ports.restoreNAPI.unwind()
}

func (s *Service) threadPort(p *afxdp.Port) (restore func() error, err error) {
	cores := s.engine.state.Cores
	return netdev.ThreadNAPI(p.Name, p.Ifindex, func(queue int) int { return cores[queue%len(cores)] }, napiPriority)
}
