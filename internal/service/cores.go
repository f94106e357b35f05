package service

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/placement"
)

// cores are the CPUs of the workers.
type cores struct {
	mu       sync.Mutex
	topology *placement.Topology
	allowed  []int // CPUs that the process may use
	home     []int // by worker: the CPU chosen at the start, or by the last reload
	current  []int // by worker: another CPU while the process may not use that one
}

// placeWorkers chooses the CPUs of a number of workers.
func (s *Service) placeWorkers(workers int) (err error) {
	c := &s.cores
	if c.home, err = s.chooseCores(s.cfg, workers); err != nil {
		return err
	}
	c.current = slices.Clone(c.home)
	c.topology = placement.ReadTopology(placement.Sysfs)
	s.showCores()
	return nil
}

func (s *Service) chooseCores(cfg *config.Config, workers int) ([]int, error) {
	allowed, err := affinity.Usable(cfg.Cores)
	if err != nil {
		return nil, err
	}
	r := placement.Request{Workers: workers, Allowed: allowed, Cores: cfg.Cores}
	netdev.WithSysfs(func(sysfs string) {
		for _, p := range s.initial.Ports {
			r.Ports = append(r.Ports, placement.InterfaceNode(sysfs, p.Interface))
		}
	})
	return placement.ReadTopology(placement.Sysfs).Choose(r)
}

// prepareCores moves the workers to other CPUs.
func (s *Service) prepareCores(cfg *config.Config, _ []config.Change) (change, error) {
	if slices.Equal(cfg.Cores, s.cfg.Cores) {
		return noChange, nil
	}
	home, err := s.chooseCores(cfg, len(s.memory.workers))
	if err != nil {
		return change{}, err
	}
	return change{abort: func() {}, commit: func() {
		s.cores.mu.Lock()
		s.cores.home = home
		s.cores.mu.Unlock()
		s.followCores(time.Time{})
	}}, nil
}

// followCores keeps each worker on its CPU. While the process may not use that one, because it is offline or not in
// the cpuset of the cgroup any more, Linux lets the thread run on all others; followCores pins it to that with the
// fewest workers.
func (s *Service) followCores(time.Time) {
	if s.handing.Load() {
		return
	}
	c := &s.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	allowed, err := affinity.Usable(c.home)
	if err != nil || len(allowed) == 0 {
		return
	}
	if !slices.Equal(allowed, c.allowed) { // CPUs that come online have nodes then
		c.topology, c.allowed = placement.ReadTopology(placement.Sysfs), allowed
	}
	threads := s.router.Threads()
	for worker, cpu := range c.topology.Place(c.home, allowed) {
		if worker >= len(threads) || pinned(threads[worker], cpu) {
			continue
		}
		if err := affinity.Move(threads[worker], cpu, 0); err != nil {
			s.log.Error("worker not moved", "worker", worker, "err", err)
			continue
		}
		if from := c.current[worker]; from != cpu {
			l := s.log.With("worker", worker, "from", from, "to", cpu)
			if cpu != c.home[worker] {
				l = l.With("hint", fmt.Sprintf("CPU %d is offline or not in the cpuset of the router's cgroup; the worker returns to it", c.home[worker]))
			}
			l.Info("worker moved")
		}
		c.current[worker] = cpu
	}
	s.showCores()
}

// showCores shows the CPUs of the workers in the state of the engine.
func (s *Service) showCores() {
	c := &s.cores
	nodes := make([]int, len(c.current))
	for i, cpu := range c.current {
		nodes[i] = c.topology.Node(cpu)
	}
	if c.topology.Nodes() < 2 {
		nodes = nil
	}
	s.engine.mu.Lock()
	s.engine.state.Cores, s.engine.state.NUMANodes = slices.Clone(c.current), nodes
	s.engine.mu.Unlock()
}

// of returns the CPU of the worker that owns a queue.
func (c *cores) of(queue int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current[queue%len(c.current)]
}

// pinned reports whether a thread runs only on a CPU.
func pinned(tid, cpu int) bool {
	var set unix.CPUSet
	return unix.SchedGetaffinity(tid, &set) == nil && set.Count() == 1 && set.IsSet(cpu)
}

// memory returns the NUMA node of each worker's memory, or placement.Unknown.
func (c *cores) memory() (nodes []int) {
	for _, cpu := range c.home {
		nodes = append(nodes, c.topology.Memory(cpu))
	}
	return nodes
}
