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

// link is a network interface of Linux.
type link struct {
	rtnl.Link
	up    bool
	port  int  // -1 if it is not a port
	hides bool // there are routes or paths over it that come back with it, or with an address
	seen  uint32
}

// port is one of ours, with the link that it is now.
type port struct {
	Port
	ifindex int  // 0 while there is none
	gone    bool // there was one
	refused int  // the link that was not to be the port in its place
	lent    bool // to Linux: the link is in a VRF, bond or team
	mac     [6]byte
	mtu     int
	up      bool
}

// portOf returns the port that a link is, -1 if it is none, or a VRF, bond or team has claimed it.
func (s *state) portOf(l *rtnl.Link) int {
	number := -1
	if l.Claimed() {
		return number
	}
	for i := range s.ports {
		switch p := &s.ports[i]; {
		case p.ifindex == l.Index, p.ifindex == 0 && p.Ifindex == l.Index && !p.gone:
			return i
		case p.gone && p.Name == l.Name && l.Flags&unix.IFF_UP == 0:
			p.refused = 0 // it may be another by the time that it is up
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

// checkPorts says what keeps a router from starting on its ports.
func (s *state) checkPorts() error {
	for i, p := range s.ports {
		if l := s.links[p.Ifindex]; l != nil && l.InVRF() {
			return fmt.Errorf("port %s belongs to VRF %s, and the router routes by the main table alone, out of the VRF: take it out (ip link set %s nomaster), or give the router a network namespace instead",
				p.Name, s.linkName(l.Master), p.Name)
		}
		if l := s.links[p.Ifindex]; l != nil && l.Claimed() {
			return fmt.Errorf("port %s is a member of %s %s, which receives in its place: take it out (ip link set %s nomaster)", p.Name, l.SlaveOf, s.linkName(l.Master), p.Name)
		}
		if p.ifindex == 0 {
			return fmt.Errorf("port %d: link %q with index %d does not exist", i, p.Name, p.Ifindex)
		}
	}
	return nil
}

func (s *state) setLink(r *rtnl.Link) {
	if r.Family != unix.AF_UNSPEC {
		return // a bridge tells about its port
	}
	l, known := s.links[r.Index]
	if !known {
		l = &link{port: -1}
		s.links[r.Index] = l
	}
	wasUp, wasPort, wasFlags := l.up, l.port, l.Flags
	l.Link, l.up, l.seen = *r, r.Up(), s.epoch
	if l.port = s.portOf(r); l.port >= 0 {
		s.setPort(l.port, l)
	} else if wasPort >= 0 {
		s.lend(wasPort, r.Index)
	}
	if !known || wasUp != l.up || wasPort != l.port {
		s.reprogramOver(r.Index)
	}
	if wasUp && !l.up {
		s.deleteObjectsOver(r.Index)
	}
	if wasFlags&^l.Flags&unix.IFF_UP != 0 {
		s.dropRoutesOver(r.Index)
	}
	if wasUp && !l.up {
		s.suspects.link(r.Index)
	}
	if l.Flags != wasFlags {
		s.setUpAgain(r.Index)
	}
}

// setUpAgain looks at routes that a link which is up, or has got an address, may have brought back.
func (s *state) setUpAgain(index int) {
	if l := s.links[index]; l != nil && l.up && l.hides {
		l.hides = false
		s.suspects.everything()
	}
}

// dropRoutesOver drops the IPv4 routes that Linux drops without telling when a
// link is set down (fib_sync_down_dev): those with no path over another link,
// but for those of the host's scope, as local addresses have.
func (s *state) dropRoutesOver(index int) {
	used := s.markHops(func(h *hop) bool {
		return h.over(index) && !slices.ContainsFunc(h.paths, func(p path) bool { return s.isSet(p.link) && !p.lost })
	})
	if !used {
		return
	}
	s.sweepRoutes(func(p netip.Prefix, r *route) bool {
		return r.hop.marked && p.Addr().Is4() && r.scope != unix.RT_SCOPE_HOST
	})
}

func (s *state) setPort(number int, l *link) {
	p := &s.ports[number]
	s.takeBack(number)
	if p.ifindex != l.Index {
		if p.gone {
			s.suspects.everything() // the link's neighbours were none of ours before
		}
		p.ifindex, p.Ifindex, p.gone = l.Index, l.Index, false
	} else if p.mac == l.Address && p.mtu == int(l.MTU) && p.up == l.up {
		return
	}
	if p.mtu != int(l.MTU) && s.mtuMayFollow(l.Index) {
		s.suspects.everything()
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
	if _, known := s.links[index]; !known {
		return
	}
	delete(s.links, index)
	s.forgetNeighborsOn(index)
	s.reprogramOver(index)
	s.suspects.link(index)
	number := slices.IndexFunc(s.ports, func(p port) bool { return p.ifindex == index })
	if number < 0 {
		return
	}
	s.takeBack(number)
	p := &s.ports[number]
	p.ifindex, p.up, p.gone = 0, false, true
	s.writePort(number)
	if s.hooks.PortGone != nil {
		s.hooks.PortGone(number)
	}
	for _, other := range s.links {
		if other.Name == p.Name { // of that we heard before, when its place was taken
			s.suspects.everything()
		}
	}
}

// portNumber returns the number of the port that a link is, or -1.
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

// hasLinkdown reports whether a link is set up and has no carrier.
func (s *state) hasLinkdown() bool {
	for _, l := range s.links {
		if l.Flags&unix.IFF_UP != 0 && !l.up {
			return true
		}
	}
	return false
}

// isSet reports whether a link is set up, with or without a carrier.
func (s *state) isSet(index int) bool {
	l, ok := s.links[index]
	return ok && l.Flags&unix.IFF_UP != 0
}

func (s *state) linkName(index int) string {
	if l, ok := s.links[index]; ok {
		return l.Name
	}
	return ""
}

// devName returns the name by which people know a link: a port's is that of its configuration,
// also after the link was renamed, so that routes, traces and metrics name ports alike.
func (s *state) devName(index int) string {
	if number := s.portNumber(index); number >= 0 {
		return s.ports[number].Name
	}
	return s.linkName(index)
}

func toMAC(b [6]byte) fib.MAC {
	m, _ := fib.ParseMAC(b[:]) // of 6 bytes never fails
	return m
}
