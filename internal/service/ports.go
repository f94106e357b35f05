package service

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/addresses"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/netdev"
)

// ports are the router's ports and what Linux reports about them.
type ports struct {
	*afxdp.Set
	sockets map[string]int // by port name

	mu          sync.Mutex // guards the fields below and those that Port.Reopen replaces
	links       []link     // by physical port
	logical     map[int]*logicalPort
	router      *dataplane.Router    // nil before the workers are created
	reversePath []config.ReversePath // by physical port
	local       map[netip.Addr]bool
	addresses   *addresses.Watcher
	restoreNAPI closers // empty unless NAPI is threaded
}

// openPorts allocates the workers' memory and opens a socket for every queue of every port.
func (s *Service) openPorts() error {
	workers, queues, err := countWorkers(s.cfg)
	if err != nil {
		return err
	}
	s.memory.room = config.MaxPackets // so that a reload can raise it
	if s.engine.gpus != nil {
		s.memory.room = s.cfg.Batch.MaxPackets // mailboxes have this size
	}
	s.memory.chunks = max(s.memory.chunks, len(s.cfg.ActiveLanes())) // each lane needs one
	ring := uint32(afxdp.DefaultRingSize)
	if err := s.memory.allocate(s.cfg, workers, queues, ring); err != nil {
		return err
	}
	s.engine.state.HugePages = s.memory.hugePages
	cfg := afxdp.Config{RingSize: ring, BusyPoll: s.cfg.BusyPoll, Workers: s.memory.workers}
	for _, p := range s.cfg.Ports {
		mode, err := afxdp.ParseMode(string(p.Mode))
		if err != nil {
			return err
		}
		cfg.Ports = append(cfg.Ports, afxdp.PortConfig{Interface: p.Interface, Mode: mode})
	}
	return s.openSockets(cfg)
}

// countWorkers returns the number of workers and of the queues that they share, with those that drivers
// add for XDP. Every worker needs its own transmit queue on every port.
func countWorkers(cfg *config.Config) (workers, queues int, err error) {
	fewest, port := 0, ""
	for _, p := range cfg.Ports {
		n, _, err := netdev.Queues(p.Interface)
		if err != nil {
			return 0, 0, err
		}
		all := n
		if p.Mode != config.ModeGeneric {
			if all, err = netdev.QueuesWithXDP(p.Interface); err != nil {
				return 0, 0, err
			}
		}
		queues += all
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

// openSockets opens the ports and logs the mode of each. Drivers of hardware NICs may reset the
// link when an XDP program or a zero-copy socket is attached.
func (s *Service) openSockets(cfg afxdp.Config) (err error) {
	before := map[string]netdev.Carrier{}
	for _, p := range cfg.Ports {
		if c, err := netdev.CarrierOf(p.Interface); err == nil { // Open reports the error better
			before[p.Interface] = c
		}
	}
	if s.ports.Set, err = afxdp.Open(cfg); err != nil {
		return err
	}
	s.closers.push("close ports", s.ports.Close)
	for _, p := range s.ports.Ports {
		log := s.log.Info
		if p.Mode == afxdp.Generic && p.ModeReason != "" {
			log = s.log.Warn
		}
		log("port open", "port", p.Name, "mode", p.Mode, "reason", p.ModeReason)
		if now, err := netdev.CarrierOf(p.Name); err == nil && before[p.Name].Reset(now) {
			s.log.Warn("driver reset the link to attach the XDP program", "port", p.Name, "up", now.Up,
				"hint", "wait some seconds for the carrier, and again when the router stops; connected switches may wait longer (spanning tree)")
		}
	}
	return nil
}

// names returns the names of the physical ports.
func (p *ports) names() (names []string) {
	for _, p := range p.Ports {
		names = append(names, p.Name)
	}
	return names
}

// isLocal reports whether an address is one of the host's.
func (p *ports) isLocal(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.local[a]
}

func (p *ports) addLocal(a netip.Addr) error {
	p.mu.Lock()
	p.local[a] = true
	p.mu.Unlock()
	return p.AddLocal(a)
}

func (p *ports) deleteLocal(a netip.Addr) error {
	p.mu.Lock()
	delete(p.local, a)
	p.mu.Unlock()
	return p.DeleteLocal(a)
}
