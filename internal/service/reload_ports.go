package service

import (
	"fmt"
	"slices"

	"github.com/warproute/warproute/control/config"
)

// preparePorts opens the ports that a configuration names and the active one does not. The commit closes those that it
// does not select any longer; patterns apply after it.
func (s *Service) preparePorts(cfg *config.Config, _ []config.Change) (change, error) {
	if slices.Equal(cfg.Ports, s.cfg.Ports) {
		return noChange, nil
	}
	var opened []int
	abort := func() {
		for _, number := range opened {
			s.closePort(number, "reload failed", false)
		}
	}
	for _, name := range cfg.Interfaces() {
		if s.cfg.Names(name) {
			continue // it is open, or its interface is missing
		}
		p, _ := cfg.PortOf(name)
		if number := s.ports.numberOfPhysical(name); number >= 0 {
			if was := s.ports.configured[number]; was.matched && was.Mode != p.Mode {
				abort()
				return change{}, fmt.Errorf("port %s: it is open in mode %s: restart the router to change it to mode %s", name, was.Mode, p.Mode)
			}
			continue
		}
		number, err := s.openPort(p, false)
		if err != nil {
			abort()
			return change{}, err
		}
		opened = append(opened, number)
	}
	return change{abort: abort, commit: func() { s.commitPorts(cfg) }}, nil
}

// commitPorts closes the ports that a configuration neither names nor matches.
func (s *Service) commitPorts(cfg *config.Config) {
	for number, p := range s.ports.all() {
		if p == nil || s.ports.configured[number].joined() {
			continue // the reconciliation closes members that are none any longer
		}
		settings, ok := cfg.PortOf(p.Name)
		if !ok {
			s.closePort(number, "configuration reloaded", false)
			continue
		}
		s.ports.mu.Lock()
		s.ports.configured[number] = portConfig{settings, !cfg.Names(p.Name)}
		s.ports.mu.Unlock()
	}
}

// numberOfPhysical returns the number of the physical port with a name, or -1.
func (p *ports) numberOfPhysical(name string) int {
	return slices.Index(p.names(), name)
}
