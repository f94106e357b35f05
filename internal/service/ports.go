package service

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/addresses"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/netdev"
)

// ports are the router's ports and what Linux reports about them.
type ports struct {
	*afxdp.Set
	sockets map[string]int // by port name

	list    atomic.Pointer[[]*afxdp.Port] // open ports by number, nil for a number without one; a change replaces it
	numbers *fib.PortNumbers
	most    int // ports at a time
	start   int // ports at the start

	manyAtStart atomic.Bool // until the mirror has found more than loggedAtStart logical ports

	mu          sync.Mutex   // guards the fields below, sockets, and those that Port.Reopen replaces
	configured  []portConfig // by physical port
	removed     removedPorts
	links       []link // by physical port
	logical     map[int]*logicalPort
	hasVLANs    bool              // there was one
	router      *dataplane.Router // nil before the workers are created
	local       map[netip.Addr]bool
	addresses   *addresses.Watcher
	restoreNAPI map[int]func() error // by physical port; nil unless NAPI is threaded
}

// portConfig is the configuration of an open port.
type portConfig struct {
	config.Port
	matched bool // by a pattern, or member that joined a bond: removed with the interface
}

// all returns the open ports by number, nil for a number without one.
func (p *ports) all() []*afxdp.Port {
	if list := p.list.Load(); list != nil {
		return *list
	}
	if p.Set == nil {
		return nil
	}
	return p.Set.Ports
}

// port returns the open port with a number, or nil.
func (p *ports) port(number int) *afxdp.Port {
	if all := p.all(); number < len(all) {
		return all[number]
	}
	return nil
}

// openPorts allocates the workers' memory and opens a socket for every queue of every port.
func (s *Service) openPorts() error {
	workers, queues, err := countWorkers(s.initial)
	if err != nil {
		return err
	}
	s.memory.room = config.MaxPackets // so that a reload can raise it
	if s.engine.gpus != nil {
		s.memory.room = max(s.cfg.Batch.MaxPackets, config.DefaultMaxPackets) // mailboxes have this size
	}
	s.memory.chunks = max(s.memory.chunks, len(s.cfg.ActiveLanes())) // each lane needs one
	ring := uint32(afxdp.DefaultRingSize)
	if err := s.placeWorkers(workers); err != nil {
		return err
	}
	if err := s.memory.allocate(s.initial, s.cores.memory(), queues, s.ports.most-s.ports.start, ring); err != nil {
		return err
	}
	s.engine.state.HugePages = s.memory.hugePages
	cfg := afxdp.Config{RingSize: ring, BusyPoll: s.cfg.BusyPoll, Workers: s.memory.workers, AddedQueues: s.memory.added}
	for _, p := range s.initial.Ports {
		mode, err := afxdp.ParseMode(string(p.Mode))
		if err != nil {
			return err
		}
		inherited, err := s.inherited(p.Interface)
		if err != nil {
			return err
		}
		cfg.Ports = append(cfg.Ports, afxdp.PortConfig{Interface: p.Interface, Mode: mode, Member: p.Bond != "", Inherited: inherited})
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
		return max(fewest, 1), queues, nil
	case cfg.Workers > fewest && port != "":
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
	s.ports.publish()
	for _, p := range s.ports.all() {
		s.logOpen(p, before[p.Name])
	}
	return nil
}

// logOpen logs the mode of a port, and whether the driver has reset the link.
func (s *Service) logOpen(p *afxdp.Port, before netdev.Carrier) {
	log := s.log.Info
	if p.Mode == afxdp.Generic && p.ModeReason != "" {
		log = s.log.Warn
	}
	log("port open", "port", p.Name, "mode", p.Mode, "reason", p.ModeReason)
	if now, err := netdev.CarrierOf(p.Name); err == nil && before.Reset(now) {
		s.log.Warn("driver reset the link to attach the XDP program", "port", p.Name, "up", now.Up,
			"hint", "wait some seconds for the carrier, and again when the router stops; connected switches may wait longer (spanning tree)")
	}
}

// publish makes the open ports of the set visible to all.
func (p *ports) publish() {
	list := slices.Clone(p.Set.Ports)
	p.list.Store(&list)
}

// names returns the names of the physical ports by number, "" for a number without one.
func (p *ports) names() (names []string) {
	for _, p := range p.all() {
		name := ""
		if p != nil {
			name = p.Name
		}
		names = append(names, name)
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
