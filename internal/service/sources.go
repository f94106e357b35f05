package service

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
)

// sources are the reverse path checks of the ports, by port number.
type sources struct {
	mu     sync.Mutex // held during set, so that the tables have the last value
	ports  []config.Port
	active []fib.Sources
	set    func(port int, s fib.Sources) // in the tables
	name   func(port int) string         // of the current interface, "" for none
}

// setAllSources sets the checks of a router whose workers do not run yet.
func (s *Service) setAllSources() error {
	a := &s.sources
	a.ports, a.active = slices.Clone(s.cfg.Ports), make([]fib.Sources, len(s.cfg.Ports))
	a.set, a.name = s.mirror.SetSources, s.mirror.PortName
	for i, p := range s.cfg.Ports {
		check, err := portSources(p)
		if err != nil {
			return err
		}
		a.change(s.log, i, check)
	}
	return nil
}

func (a *sources) change(log *slog.Logger, port int, check fib.Sources) {
	if check == a.active[port] {
		return
	}
	a.active[port] = check
	a.set(port, check)
	log.Info("reverse path check changed", "port", a.ports[port].Interface, "ipv4", checkNames[check.IPv4], "ipv6", checkNames[check.IPv6])
}

// updateSources reads rp_filter again, because Linux sends no event to listeners of routes when
// it changes. Ports without a readable setting, as after the removal of an interface, keep theirs.
func (s *Service) updateSources() {
	a := &s.sources
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range a.ports {
		p.Interface = a.name(i) // settings follow a rename
		if check, err := portSources(p); err == nil {
			a.change(s.log, i, check)
		}
	}
}

// changed returns the checks of those ports whose configuration changes.
func (a *sources) changed(ports []config.Port) (map[int]fib.Sources, error) {
	next := map[int]fib.Sources{}
	for i, p := range ports {
		if p.ReversePath == a.ports[i].ReversePath {
			continue
		}
		if name := a.name(i); name != "" { // settings follow a rename
			p.Interface = name
		}
		var err error
		if next[i], err = portSources(p); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (a *sources) apply(log *slog.Logger, ports []config.Port, next map[int]fib.Sources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, check := range next {
		a.ports[i] = ports[i]
		a.change(log, i, check)
	}
}
