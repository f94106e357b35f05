package mirror

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// link is a network interface.
type link struct {
	rtnl.Link
	up         bool
	port       int     // number of its port, -1 if not a port
	extra      macvlan // as reported, of kind "macvlan"
	vrfTable   uint32  // of kind "vrf": the table of Linux, as followed
	ignored    bool    // neighbors of the link were ignored while it was not a logical port
	suppresses bool    // suppressed routes or paths return with the link or an address
	seen       uint32
}

// port is a physical port with its current link.
type port struct {
	Port
	ifindex int  // 0 if none
	gone    bool // the link was deleted
	refused int  // link that PortBack refused
	paused  bool // the link is in a VRF, bond or team
	mac     [6]byte
	mtu     int
	up      bool
}

// portOf returns the physical port of a link, -1 if it is none or a member of a VRF, bond or team, except one of
// the port's own bond.
func (s *state) portOf(l *rtnl.Link) int {
	number := -1
	for i := range s.ports {
		switch p := &s.ports[i]; {
		case p.Bond == "" && s.claimed(l):
		case p.ifindex == l.Index, p.ifindex == 0 && p.Ifindex == l.Index && !p.gone:
			return i
		case p.gone && p.Name == l.Name && l.Flags&unix.IFF_UP == 0:
			p.refused = 0 // ask again when it is up
		case p.gone && p.Name == l.Name && p.refused != l.Index:
			if s.hooks.PortBack == nil || s.hooks.PortBack(i, l.Index) {
				number = i
			} else {
				p.refused = l.Index
			}
		}
	}
	return number
}

// checkPorts returns an error if a port cannot be used at the start.
func (s *state) checkPorts() error {
	for i, p := range s.ports {
		if l := s.links[p.Ifindex]; p.Name == "" || l != nil && p.Bond != "" {
			continue // a free number, or checkBonds
		}
		if l := s.links[p.Ifindex]; l != nil && l.InVRF() && !s.hooks.VRFs {
			return fmt.Errorf("port %s: member of VRF %s, but an IPsec gateway only uses the main table; remove it (ip link set %s nomaster), or run the router in a network namespace instead",
				p.Name, s.linkName(l.Master), p.Name)
		}
		if l := s.links[p.Ifindex]; l != nil && s.claimed(&l.Link) {
			return fmt.Errorf("port %s: member of %s %s, which receives its packets; remove it (ip link set %s nomaster)", p.Name, l.SlaveOf, s.linkName(l.Master), p.Name)
		}
		if l := s.links[p.Ifindex]; l != nil && l.Kind == "vlan" && s.portNumber(l.Parent) >= 0 {
			return fmt.Errorf("port %s: a VLAN of port %s, and VLANs of ports are ports already; remove %s from the ports", p.Name, s.devName(l.Parent), p.Name)
		}
		if p.ifindex == 0 {
			return fmt.Errorf("port %d: link %q with index %d does not exist", i, p.Name, p.Ifindex)
		}
	}
	return s.checkBonds()
}

func (s *state) setLink(r *rtnl.Link) {
	if r.Family != unix.AF_UNSPEC {
		return // about a bridge port
	}
	defer s.linksChanged()
	l, known := s.links[r.Index]
	if !known {
		l = &link{port: -1}
		s.links[r.Index] = l
	}
	wasUp, wasPort, wasFlags, wasTunnel, was := l.up, l.port, l.Flags, l.tunnel(), l.Link
	s.moveChild(r.Index, l, r)
	l.Link, l.up, l.seen = *r, r.Up(), s.dumpSeq
	s.setVRFTable(l, r.VRFTable)
	s.updatePort(l)
	if wasTunnel != l.tunnel() {
		s.tunnelsChanged = true
	}
	if !known || wasUp != l.up || wasPort != l.port || wasTunnel != l.tunnel() {
		s.reprogramOver(r.Index)
	} else if (was.Flags^l.Flags)&unix.IFF_UP != 0 || was.Forced6 != l.Forced6 || was.Name != l.Name {
		s.updateExits(func(h *hop) bool { return h.over(r.Index) })
	}
	s.updateChildren(r.Index)
	if wasUp && !l.up {
		s.deleteObjectsOver(r.Index)
	}
	switch {
	case known && was.Master != l.Master && (was.InVRF() || l.InVRF()):
		s.dropRoutesOver(r.Index, true)
	case wasFlags&^l.Flags&unix.IFF_UP != 0:
		s.dropRoutesOver(r.Index, false)
	}
	if wasUp && !l.up {
		s.suspects.addLink(r.Index)
	}
	if l.Flags != wasFlags {
		s.restoreSuppressed(r.Index)
	}
}

// updatePort updates the port of a link that has changed.
func (s *state) updatePort(l *link) {
	was := l.port
	if l.port = s.portOf(&l.Link); l.port >= 0 && s.ports[l.port].Bond != "" {
		number := l.port
		l.port = -1 // the bond has the addresses and routes
		s.setMember(number, l)
		return
	}
	if l.port >= 0 {
		if p := s.logical[was]; p != nil && p.Ifindex == l.Index {
			s.deleteLogical(p)
		}
		s.setPort(l.port, l)
		return
	}
	if l.Kind == "macvlan" {
		l.port = s.setMacvlan(l)
		return
	}
	if was >= 0 && was < len(s.ports) {
		s.pause(was, l.Index)
	}
	l.port = s.setLogical(l, s.logical[was])
	s.updateMembers(s.bondOf(&l.Link))
}

// restoreSuppressed schedules a resync for suppressed routes that return with a link or an address.
func (s *state) restoreSuppressed(index int) {
	if l := s.links[index]; l != nil && l.up && l.suppresses {
		l.suppresses = false
		s.suspects.addAll()
	}
}

// dropRoutesOver drops the IPv4 routes over a link that Linux deletes without an event, except those with a path over
// another link (fib_sync_down_dev): when the link is set down, all but those of host scope, such as local addresses;
// when it enters or leaves a VRF, these too (fib_netdev_event).
func (s *state) dropRoutesOver(index int, local bool) {
	used := s.selectHops(func(h *hop) bool {
		return h.over(index) && !slices.ContainsFunc(h.paths, func(p path) bool { return p.link != index && s.isAdminUp(p.link) && !p.dead })
	})
	if !used {
		return
	}
	s.sweepRoutes(func(p netip.Prefix, r *route) bool {
		return r.hop.selected && p.Addr().Is4() && (local || r.scope != unix.RT_SCOPE_HOST)
	})
}

func (s *state) setPort(number int, l *link) {
	p := &s.ports[number]
	s.setPortVRF(number, l)
	s.resume(number)
	if p.ifindex != l.Index {
		if p.gone {
			s.suspects.addAll() // neighbors of other links were ignored
		}
		p.ifindex, p.Ifindex, p.gone = l.Index, l.Index, false
	} else if p.mac == l.Address && p.mtu == int(l.MTU) && p.up == l.up {
		return
	}
	if p.mtu != int(l.MTU) && s.mtusFollow(l.Index) {
		s.suspects.addAll()
	}
	p.mac, p.mtu, p.up = l.Address, int(l.MTU), l.up
	s.writePort(number)
}

func (s *state) writePort(number int) {
	p := &s.ports[number]
	mac, mtu := toMAC(p.mac), 0
	if p.up {
		mtu = min(p.mtu, math.MaxUint16)
	}
	s.fib.SetPort(uint16(number), mac, uint16(mtu))
	s.changed = true
	if s.hooks.PortChanged != nil {
		s.hooks.PortChanged(number, p.mac, p.mtu, p.up)
	}
}

func (s *state) deleteLink(index int) {
	l, known := s.links[index]
	if !known {
		return
	}
	defer s.linksChanged()
	s.tunnelsChanged = s.tunnelsChanged || l.tunnel() != Tunnel{}
	s.forgetLogical(index)
	s.setVRFTable(l, 0)
	delete(s.links, index)
	s.updateVRFs()
	delete(s.forwarding.ipv4, index)
	s.forgetNeighborsOn(index)
	s.updateChildren(index)
	s.reprogramOver(index)
	s.suspects.addLink(index)
	number := slices.IndexFunc(s.ports, func(p port) bool { return p.ifindex == index })
	if number < 0 {
		return
	}
	s.resume(number)
	p := &s.ports[number]
	p.ifindex, p.up, p.gone = 0, false, true
	s.closePort(number)
	s.writePort(number)
	s.updateMembers(s.bondNamed(p.Bond))
	if s.hooks.PortGone != nil {
		s.hooks.PortGone(number)
	}
	for _, other := range s.links {
		if other.Name == p.Name { // its event was ignored while the port existed
			s.suspects.addAll()
		}
	}
}

func (s *state) linksChanged() {
	if s.hooks.LinksChanged != nil {
		s.hooks.LinksChanged()
	}
}

// portNumber returns the port number of a link, or -1.
func (s *state) portNumber(index int) int {
	if l, ok := s.links[index]; ok {
		return l.port
	}
	return -1
}

func (s *state) isUp(index int) bool {
	l, ok := s.links[index]
	return ok && l.up
}

// hasLinkdown reports whether a link is set up without carrier.
func (s *state) hasLinkdown() bool {
	for _, l := range s.links {
		if l.Flags&unix.IFF_UP != 0 && !l.up {
			return true
		}
	}
	return false
}

// isAdminUp reports whether a link is set up, with or without carrier.
func (s *state) isAdminUp(index int) bool {
	l, ok := s.links[index]
	return ok && l.Flags&unix.IFF_UP != 0
}

func (s *state) linkName(index int) string {
	if l, ok := s.links[index]; ok {
		return l.Name
	}
	return ""
}

// devName returns the name of a link for users: the configured name of a port even after the
// link was renamed, as in traces and metrics.
func (s *state) devName(index int) string {
	if number := s.portNumber(index); number >= 0 && number < len(s.ports) {
		return s.ports[number].Name
	}
	return s.linkName(index)
}

func toMAC(b [6]byte) fib.MAC {
	m, _ := fib.ParseMAC(b[:]) // never fails for 6 bytes
	return m
}
