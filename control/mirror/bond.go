package mirror

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// A bond whose members are physical ports (Port.Bond) is a logical port, as a VLAN is: it has the addresses,
// routes and neighbors, and its members have none. It keeps its number until its link is deleted or joins a
// master. VLANs and macvlans on it are as on a physical port.
//
// Linux decides which members are used, and reports it by netlink. A member transmits if Linux would transmit
// on it, and it has a carrier, which is lost before Linux's link monitor reports it. It receives unless Linux
// would drop its frames.

// Member is the state of a physical port as a member of its bond.
type Member struct {
	Port      int
	Enslaved  bool // its link is a member of the bond
	Receives  bool // its frames are the bond's
	Transmits bool // flows of the bond leave by it
}

// bond is a bond of Port.Bond.
type bond struct {
	name    string
	ifindex int // of its link, 0 while it is no port
	number  int // of its logical port
	ports   []int
	members []Member // as reported last
}

// bondModes are the modes in which each flow has one member.
var bondModes = []uint8{rtnl.BondActiveBackup, rtnl.BondXOR, rtnl.Bond8023AD}

// isBond reports whether a logical port is a bond.
func (p *LogicalPort) isBond() bool { return p.Parent < 0 }

// initBonds lists the bonds of the physical ports.
func (s *state) initBonds() {
	for i, p := range s.ports {
		if p.Bond == "" {
			continue
		}
		b := s.bondNamed(p.Bond)
		if b == nil {
			b = &bond{name: p.Bond}
			s.bonds = append(s.bonds, b)
		}
		b.ports = append(b.ports, i)
	}
}

// bondNamed returns the bond with a configured name, nil for none.
func (s *state) bondNamed(name string) *bond {
	for _, b := range s.bonds {
		if b.name == name {
			return b
		}
	}
	return nil
}

// bondOf returns the bond of a link, which may have been renamed since it became a port, or nil.
func (s *state) bondOf(l *rtnl.Link) *bond {
	if l.Kind != "bond" {
		return nil
	}
	for _, b := range s.bonds {
		if b.ifindex == l.Index || b.ifindex == 0 && b.name == l.Name {
			return b
		}
	}
	return nil
}

// logicalOfBond returns the logical port that the link of a bond should be, without a number.
func (s *state) logicalOfBond(l *link) (p LogicalPort, ok bool) {
	b := s.bondOf(&l.Link)
	if b == nil || !s.routed(&l.Link) || l.Address == [6]byte{} || !slices.Contains(bondModes, l.Bond.Mode) {
		return p, false
	}
	return LogicalPort{Name: l.Name, Ifindex: l.Index, Parent: -1, Physical: b.ports[0], Members: b.ports}, true
}

// addBond makes a logical port that of a bond in the FIB.
func (s *state) addBond(p *logical, b *bond) {
	b.ifindex, b.number, b.members = p.Ifindex, p.Number, nil
	s.fib.Bonds.Add(uint16(p.Number))
	for _, port := range b.ports {
		s.fib.Bonds.SetMaster(uint16(port), uint16(p.Number))
	}
}

// deleteBond undoes addBond.
func (s *state) deleteBond(p *logical) {
	for _, b := range s.bonds {
		if b.ifindex == p.Ifindex {
			b.ifindex, b.number, b.members = 0, 0, nil
		}
	}
	s.fib.Bonds.Delete(uint16(p.Number))
}

// addMember adds a physical port that was added to the ports of its bond. A port without one receives for itself,
// though its number may have been that of a member.
func (s *state) addMember(number int) {
	b := s.bondNamed(s.ports[number].Bond)
	if b == nil {
		s.fib.Bonds.SetMaster(uint16(number), 0)
		return
	}
	s.setBondPorts(b, append(slices.Clone(b.ports), number))
	s.fib.Bonds.SetMaster(uint16(number), uint16(b.number))
}

// removeMember removes a physical port from the ports of its bond. Frames that it has received stay those of the
// bond, whose VRF applies.
func (s *state) removeMember(number int) {
	if b := s.bondNamed(s.ports[number].Bond); b != nil {
		s.setBondPorts(b, slices.DeleteFunc(slices.Clone(b.ports), func(i int) bool { return i == number }))
		s.updateMembers(b)
	}
}

// setBondPorts replaces the ports of a bond, of which the first stays.
func (s *state) setBondPorts(b *bond, ports []int) {
	was := b.ports
	b.ports = ports
	for _, p := range s.logical { // the bond and the VLANs on it
		if slices.Equal(p.Members, was) {
			p.Members = ports
		}
	}
}

// setMember applies a new state of the link of a physical port that is a member of a bond.
func (s *state) setMember(number int, l *link) {
	p := &s.ports[number]
	if p.ifindex != l.Index || p.mac != l.Address || p.mtu != int(l.MTU) || p.up != l.up {
		p.ifindex, p.Ifindex, p.gone = l.Index, l.Index, false
		p.mac, p.mtu, p.up = l.Address, int(l.MTU), l.up
		if s.hooks.PortChanged != nil {
			s.hooks.PortChanged(number, p.mac, p.mtu, p.up)
		}
	}
	s.updateMembers(s.bondNamed(p.Bond))
}

// updateMembers writes which members of a bond transmit, and reports changes. Nil and a bond that is no port are
// ignored.
func (s *state) updateMembers(b *bond) {
	if b == nil || b.ifindex == 0 {
		return
	}
	members := s.membersOf(b)
	if slices.Equal(members, b.members) {
		return
	}
	b.members = members
	var paths []fib.Path
	for _, m := range members {
		if m.Enslaved {
			paths = append(paths, fib.Path{Adjacency: uint32(m.Port), Weight: 1, Dead: !m.Transmits})
		}
	}
	s.fib.Bonds.SetMembers(uint16(b.number), paths)
	s.changed = true
	if s.hooks.MembersChanged != nil {
		s.hooks.MembersChanged(b.number, slices.Clone(members))
	}
}

// membersOf returns the states of the members of a bond, by the latest messages about them and the bond.
func (s *state) membersOf(b *bond) []Member {
	master := s.links[b.ifindex]
	members := make([]Member, len(b.ports))
	for i, port := range b.ports {
		members[i].Port = port
		l := s.links[s.ports[port].ifindex]
		if l == nil || l.Master != b.ifindex || l.SlaveOf != "bond" {
			continue
		}
		// The active member of active-backup is used even if its monitor reports a failure: there is no other.
		failed := l.Member.Failed && master.Bond.Mode != rtnl.BondActiveBackup
		members[i] = Member{
			Port: port, Enslaved: true,
			Receives:  master.Flags&unix.IFF_UP != 0 && (!l.Member.Backup || master.Bond.AllActive),
			Transmits: l.up && !l.Member.Backup && !failed,
		}
	}
	switch link := func(m Member) *link { return s.links[s.ports[m.Port].ifindex] }; master.Bond.Mode {
	case rtnl.BondActiveBackup:
		keepTransmitting(members, func(m Member) bool { return link(m).Index == master.Bond.Active })
		one := slices.IndexFunc(members, func(m Member) bool { return m.Transmits })
		for i := range members {
			members[i].Transmits = i == one
		}
	case rtnl.Bond8023AD:
		// Linux does not report every change of the active aggregator, but all those of its members.
		keepTransmitting(members, func(m Member) bool { return link(m).Member.Aggregator == master.Bond.Aggregator })
	}
	return members
}

// keepTransmitting has only the members transmit that match, unless none of those that transmit does.
func keepTransmitting(members []Member, matches func(Member) bool) {
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Transmits && matches(m) }) {
		return
	}
	for i := range members {
		members[i].Transmits = members[i].Transmits && matches(members[i])
	}
}

// checkBonds returns an error if a bond cannot be used at the start.
func (s *state) checkBonds() error {
	for _, b := range s.bonds {
		if b.ifindex != 0 {
			continue
		}
		for _, l := range s.links {
			switch {
			case l.Name != b.name:
			case l.InVRF() && !s.hooks.VRFs:
				return fmt.Errorf("port %s: member of VRF %s, but an IPsec gateway only uses the main table; remove it (ip link set %s nomaster), or run the router in a network namespace instead",
					b.name, s.linkName(l.Master), b.name)
			case !s.routed(&l.Link):
				return fmt.Errorf("port %s: member of %s %s, which receives its packets; remove it (ip link set %s nomaster)", b.name, l.SlaveOf, s.linkName(l.Master), b.name)
			default:
				return fmt.Errorf("port %s: not a bond in mode active-backup, balance-xor or 802.3ad; set the mode (ip link set %s type bond mode 802.3ad, without members)", b.name, b.name)
			}
		}
		return fmt.Errorf("port %s: the bond does not exist any longer", b.name)
	}
	return nil
}
