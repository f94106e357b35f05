package mirror

import "github.com/warproute/warproute/control/rtnl"

// A macvlan link on a port is another MAC address of the port, as VRRP daemons use it (keepalived use_vmac, FRR):
// the port receives frames to it, and routes over the macvlan are routes over the port. Frames that the router
// sends have the port's MAC address.
//
// Those in modes passthru and source are not, nor those in a master, except the VRF of the port: Linux gives them other
// frames, or another table.

// macvlan is the MAC address of a macvlan link, on a port.
type macvlan struct {
	port   int
	mac    [6]byte
	active bool
}

// setMacvlan updates a macvlan and returns the number of its port, or -1.
func (s *state) setMacvlan(l *link) int {
	number := s.portNumber(l.Parent)
	if number < 0 || !s.routed(&l.Link) || s.links[l.Parent].Master != l.Master && (l.InVRF() || s.links[l.Parent].InVRF()) || l.MacvlanMode == rtnl.MacvlanPassthru || l.MacvlanMode == rtnl.MacvlanSource {
		l.ignored = true
		s.reportMacvlan(l, macvlan{})
		return -1
	}
	if l.ignored {
		l.ignored = false
		s.suspects.addAll() // its neighbors were ignored
	}
	s.reportMacvlan(l, macvlan{number, l.Address, l.up})
	return number
}

// reportMacvlan reports the MAC address of a macvlan to the hooks. One that is not active has none.
func (s *state) reportMacvlan(l *link, now macvlan) {
	was := l.extra
	if l.extra = now; was == now {
		return
	}
	if was.active && s.hooks.MACDeleted != nil {
		s.hooks.MACDeleted(was.port, was.mac)
	}
	if now.active && s.hooks.MACAdded != nil {
		s.hooks.MACAdded(now.port, now.mac)
	}
}
