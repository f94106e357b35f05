package service

import (
	"log/slog"
	"sync"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
)

// portRPF is the reverse path filtering of the physical ports, by port number.
type portRPF struct {
	mu     sync.Mutex // held during set, so that the FIB has the last value
	ports  []config.Port
	active []fib.RPF
	set    func(port int, r fib.RPF) // in the FIB
	name   func(port int) string     // of the current interface, "" for none

	applied func(port int, mode config.ReversePath) // reports another configuration, for VLANs; may be nil
}

// startRPF sets the reverse path filtering of a router whose workers do not run yet.
func (s *Service) startRPF() error {
	a := &s.rpf
	a.ports, a.active = make([]config.Port, len(s.ports.configured)), make([]fib.RPF, len(s.ports.configured))
	copy(a.ports, s.initial.Ports)
	a.set, a.name, a.applied = s.mirror.SetRPF, s.mirror.PortName, s.setVLANReversePath
	for i, p := range s.initial.Ports {
		r, err := rpfOf(p)
		if err != nil {
			return err
		}
		a.change(s.log, i, r)
	}
	return nil
}

// change sets the reverse path filtering of a port. A member of a bond has that of the bond (updateVLANRPF).
func (a *portRPF) change(log *slog.Logger, port int, r fib.RPF) {
	if r == a.active[port] || a.ports[port].Bond != "" {
		return
	}
	a.active[port] = r
	a.set(port, r)
	log.Info("reverse path check changed", "port", a.ports[port].Interface, "ipv4", rpfNames[r.IPv4], "ipv6", rpfNames[r.IPv6])
}

// updateRPF reads rp_filter again, because Linux sends no event to listeners of routes when it
// changes. Ports without a readable setting, as after the removal of an interface, keep theirs.
func (s *Service) updateRPF() {
	a := &s.rpf
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range a.ports {
		if p.Interface == "" {
			continue
		}
		p.Interface = a.name(i) // settings follow a rename
		if r, err := rpfOf(p); err == nil {
			a.change(s.log, i, r)
		}
	}
	s.updateVLANRPF()
}

// open sets the reverse path filtering of a port that is added.
func (a *portRPF) open(log *slog.Logger, number int, p config.Port, r fib.RPF) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ports[number], a.active[number] = p, fib.RPF{} // the entry is empty
	a.change(log, number, r)
}

// close forgets a port that was removed.
func (a *portRPF) close(number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ports[number], a.active[number] = config.Port{}, fib.RPF{}
}

// changed returns the reverse path filtering of the ports whose configuration changes, by number. Ports without a
// name do not change.
func (a *portRPF) changed(ports []config.Port) (map[int]fib.RPF, error) {
	next := map[int]fib.RPF{}
	for i, p := range ports {
		if p.Interface == "" || p.ReversePath == a.ports[i].ReversePath {
			continue
		}
		if name := a.name(i); name != "" { // settings follow a rename
			p.Interface = name
		}
		var err error
		if next[i], err = rpfOf(p); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (a *portRPF) apply(log *slog.Logger, ports []config.Port, next map[int]fib.RPF) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, r := range next {
		a.ports[i] = ports[i]
		if a.applied != nil {
			a.applied(i, ports[i].ReversePath)
		}
		a.change(log, i, r)
	}
}
