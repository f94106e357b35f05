package service

import (
	"fmt"
	"slices"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/netdev"
)

// A bond is a logical port, and its members are physical ports: in the configuration of a running router, the
// members that the bond had at the start replace it. An interface that joins it later is opened as a port then
// (reconcilePorts), and closed when it leaves. XDP programs of members treat frames as those of the bond.

// withMembers returns a copy of a configuration in which members replace bonds.
func withMembers(cfg *config.Config) (*config.Config, error) {
	own := *cfg
	var err error
	own.Ports, err = config.WithMembers(cfg.Ports, netdev.Members)
	if err != nil {
		return nil, fmt.Errorf("find the members of bonds: %w", err)
	}
	return &own, nil
}

// withRunningMembers returns a copy of another configuration with the members that this router has.
func (s *Service) withRunningMembers(cfg *config.Config) *config.Config {
	own := *cfg
	own.Ports, _ = config.WithMembers(cfg.Ports, func(name string) (members []string, err error) {
		for _, p := range s.cfg.Ports {
			if p.Bond == name {
				members = append(members, p.Interface)
			}
		}
		return members, nil
	})
	return &own
}

// bondOf returns the configured name of the bond of a physical port, "" for none.
func (s *Service) bondOf(port int) string { return s.ports.configured[port].Bond }

// receiveAsBond has the XDP programs of members treat frames as those of the bond.
func (s *Service) receiveAsBond(bond int, members []int) {
	for _, port := range members {
		p := s.ports.port(port)
		if err := p.SetNumber(uint16(bond)); err != nil {
			s.log.Error("member of bond not received", "port", p.Name, "err", err)
		}
	}
}

// setBondPorts handles members that were added to a bond or removed from it: they are those of the bond's VLANs, too.
// Only the mirror's goroutine calls it.
func (s *Service) setBondPorts(bond *logicalPort, members []mirror.Member) {
	var ports, added []int
	for _, m := range members {
		if ports = append(ports, m.Port); !slices.Contains(bond.Members, m.Port) {
			added = append(added, m.Port)
		}
	}
	if slices.Equal(ports, bond.Members) {
		return
	}
	s.receiveAsBond(bond.Number, added)
	was := bond.Members
	s.ports.mu.Lock()
	var vlans []*logicalPort
	for _, p := range s.ports.logical {
		if slices.Equal(p.Members, was) {
			if p.Members = ports; p.received {
				vlans = append(vlans, p)
			}
		}
	}
	s.ports.mu.Unlock()
	for _, p := range vlans {
		s.receiveVLAN(p, added)
	}
}

// joined returns the settings of an interface with a master that is a bond of the router, if it has one.
func (s *Service) joined(name string, master int) (of config.Port, ok bool) {
	if master == 0 || s.cfg.Names(name) {
		return of, false
	}
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	for _, p := range s.ports.logical {
		if p.isBond() && p.Ifindex == master {
			of = s.ports.configured[p.Physical].Port
			of.Interface = name
			return of, true
		}
	}
	return of, false
}

// joined reports whether the port is a member that joined its bond while the router ran.
func (p *portConfig) joined() bool { return p.matched && p.Bond != "" }

// hasBonds reports whether a bond is a port.
func (s *Service) hasBonds() bool {
	return slices.ContainsFunc(s.cfg.Ports, func(p config.Port) bool { return p.Bond != "" })
}

// membersChanged handles new states of the members of a bond. Frames of members that do not receive go to Linux,
// which drops them or treats them as those of another interface.
func (s *Service) membersChanged(bond int, members []mirror.Member) {
	s.ports.mu.Lock()
	p := s.ports.logical[bond]
	was := p.members
	p.members = members
	name := p.Name
	s.ports.mu.Unlock()
	s.setBondPorts(p, members)
	for _, m := range members {
		if slices.Contains(was, m) {
			continue
		}
		s.log.Info("bond member changed", "port", name, "up", m.Transmits, "interface", s.ports.port(m.Port).Name, "reason", memberState(m))
		s.setReceiving(m.Port, m.Receives)
	}
}

// setReceiving starts or ends the redirection of a member's frames.
func (s *Service) setReceiving(port int, on bool) {
	p := s.ports.port(port)
	if on != p.Paused() {
		return
	}
	set := p.Pause
	if on {
		set = p.Resume
	}
	if err := set(); err != nil {
		s.log.Error("member of bond not paused or resumed", "port", p.Name, "err", err)
	}
}

// bondDeleted ends the reception of a bond's members.
func (s *Service) bondDeleted(p *logicalPort) {
	for _, port := range p.LogicalPort.Members {
		s.setReceiving(port, false)
	}
}

// memberState names the state of a member.
func memberState(m mirror.Member) string {
	switch {
	case !m.Enslaved:
		return status.MemberReleased
	case m.Transmits:
		return status.MemberActive
	}
	return status.MemberInactive
}

// memberStates describes the members of a bond. The caller holds the lock.
func (s *Service) memberStates(p *logicalPort) (all []status.Member) {
	for _, m := range p.members {
		all = append(all, status.Member{Name: s.ports.port(m.Port).Name, State: memberState(m), Receives: m.Receives})
	}
	return all
}

// memberOf returns the bond of which an interface is a member, "" for none.
func (p *ports) memberOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.configured {
		if c.Interface == name {
			return c.Bond
		}
	}
	return ""
}

// isBond reports whether a name is that of a bond: of this router, or of the host.
func (s *Service) isBond(name string) bool {
	if slices.ContainsFunc(s.cfg.Ports, func(p config.Port) bool { return p.Bond == name }) {
		return true
	}
	members, err := netdev.Members(name)
	return err == nil && len(members) > 0
}
