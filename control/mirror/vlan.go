package mirror

import (
	"math"
	"slices"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// A VLAN link whose parent is a port is a logical port, and so is a VLAN link on it (802.1ad). It has a number
// from the first message that says so until it is deleted, moves to another network namespace, or joins a
// master. What Linux does to a VLAN then applies to the port: it is up only while its parent is.
//
// A VLAN link in a bridge, bond or team, or on an IPsec gateway in a VRF, is not a port: its packets belong to the master,
// and go to Linux.

// LogicalPort is a VLAN link or a bond that is a port.
type LogicalPort struct {
	Number   int
	Name     string // of the link
	Ifindex  int
	Parent   int     // port on which the VLAN is: a physical port, or the logical one of the outer VLAN or bond; -1 for a bond
	Physical int     // port that carries the frames; of several, the first
	Members  []int   // of a bond, and of VLANs on it: the ports that carry the frames
	Tag      fib.Tag // of the VLAN on Parent
}

// logical is a logical port with the state that was reported last.
type logical struct {
	LogicalPort
	mac      [6]byte
	mtu      int // in bytes, up to that of the parent
	up       bool
	reported bool
}

// moveChild moves a link to the list of the parent in a new message.
func (s *state) moveChild(index int, l *link, parent *rtnl.Link) {
	was, is := parentOf(&l.Link), parentOf(parent)
	if was == is {
		return
	}
	if was != 0 {
		s.removeChild(was, index)
	}
	if is != 0 {
		s.children[is] = append(s.children[is], index)
	}
}

// parentOf returns the parent of a VLAN or macvlan, 0 for other links.
func parentOf(l *rtnl.Link) int {
	if l.Kind == "vlan" || l.Kind == "macvlan" {
		return l.Parent
	}
	return 0
}

func (s *state) removeChild(parent, index int) {
	if rest := slices.DeleteFunc(s.children[parent], func(c int) bool { return c == index }); len(rest) > 0 {
		s.children[parent] = rest
	} else {
		delete(s.children, parent)
	}
}

// updateChildren updates the VLANs and macvlans of a link that was changed or deleted.
func (s *state) updateChildren(index int) {
	for _, child := range s.children[index] {
		l := s.links[child]
		was := l.port
		if s.updatePort(l); l.port != was {
			s.reprogramOver(child)
		}
		s.updateChildren(child)
	}
}

// setLogical adds, changes or deletes the logical port p, nil for none, of a link that is no physical port. It
// returns the number, or -1.
func (s *state) setLogical(l *link, p *logical) int {
	want, ok := s.logicalOf(l)
	if p != nil && (!ok || p.Parent != want.Parent || p.Physical != want.Physical || p.Tag != want.Tag) {
		s.deleteLogical(p)
		p = nil
	}
	if !ok {
		l.ignored = true
		return -1
	}
	if p == nil {
		if p = s.addLogical(want, l); p == nil {
			l.ignored = true
			return -1
		}
	}
	if p.Name != l.Name {
		p.Name = l.Name
		if s.hooks.PortRenamed != nil {
			s.hooks.PortRenamed(p.Number, p.Name)
		}
	}
	s.writeLogical(p, l)
	return p.Number
}

// logicalOf returns the logical port that a link should be, without a number.
func (s *state) logicalOf(l *link) (p LogicalPort, ok bool) {
	if l.Kind == "bond" {
		return s.logicalOfBond(l)
	}
	if l.Kind != "vlan" || l.Address == [6]byte{} {
		return p, false
	}
	p.Parent = s.portNumber(l.Parent)
	if p.Parent < 0 {
		return p, false
	}
	if !s.routed(&l.Link) {
		if l.InVRF() {
			s.warnOnce("gateway VRF "+l.Name, "VLAN interface "+l.Name+" is in a VRF, which an IPsec gateway does not support: it is no port, and its transit packets are dropped as transit_vlan")
		}
		return p, false
	}
	if p.Physical = p.Parent; p.Parent >= len(s.ports) {
		outer := s.logical[p.Parent]
		if p.Physical, p.Members = outer.Physical, outer.Members; s.tags(p.Parent) == fib.MaxTags {
			s.warnOnce("tags", "VLAN interface "+l.Name+" has more than two tags: its packets go to linux")
			return p, false
		}
	}
	p.Name, p.Ifindex = l.Name, l.Index
	p.Tag, ok = fib.MakeTag(l.VLANProtocol, l.VLANID)
	return p, ok
}

// tags returns the number of tags that frames of a port have.
func (s *state) tags(number int) int {
	if p := s.logical[number]; p != nil && !p.isBond() {
		return s.tags(p.Parent) + 1
	}
	return 0
}

// addLogical adds a logical port, nil if there is no number for it.
func (s *state) addLogical(want LogicalPort, l *link) *logical {
	number, err := s.fib.VLANs.Take()
	if err != nil {
		s.warnOnce("vlans", "packets of interface "+l.Name+" go to linux: "+err.Error())
		return nil
	}
	p := &logical{LogicalPort: want}
	p.Number = int(number)
	if s.hooks.PortAdded != nil {
		s.hooks.PortAdded(p.LogicalPort)
	}
	s.setPortVRF(p.Number, l) // before it receives
	if p.isBond() {
		s.addBond(p, s.bondOf(&l.Link))
	} else if err := s.fib.VLANs.Add(number, uint16(p.Parent), p.Tag); err != nil { // impossible after logicalOf
		s.warnOnce("vlans", err.Error())
	}
	s.logical[p.Number] = p
	if l.ignored {
		l.ignored = false
		s.suspects.addAll() // for its neighbors
	}
	return p
}

// writeLogical writes the state of a link to its logical port.
func (s *state) writeLogical(p *logical, l *link) {
	mtu, up := int(l.MTU), l.up
	s.setPortVRF(p.Number, l)
	switch {
	case p.isBond():
	case p.Parent < len(s.ports):
		mtu, up = min(mtu, s.ports[p.Parent].mtu), up && s.ports[p.Parent].up
	default:
		mtu, up = min(mtu, s.logical[p.Parent].mtu), up && s.logical[p.Parent].up
	}
	if p.reported && p.mac == l.Address && p.mtu == mtu && p.up == up {
		return
	}
	if p.reported && p.mtu != mtu && s.mtusFollow(l.Index) {
		s.suspects.addAll()
	}
	p.mac, p.mtu, p.up, p.reported = l.Address, mtu, up, true
	if !up {
		mtu = 0
	}
	s.fib.SetPort(uint16(p.Number), toMAC(p.mac), uint16(min(mtu, math.MaxUint16)))
	s.changed = true
	if s.hooks.PortChanged != nil {
		s.hooks.PortChanged(p.Number, p.mac, p.mtu, p.up)
	}
}

// forgetLogical deletes the logical port of a link that was deleted.
func (s *state) forgetLogical(index int) {
	l := s.links[index]
	if parent := parentOf(&l.Link); parent != 0 {
		s.removeChild(parent, index)
	}
	if p := s.logical[l.port]; p != nil && p.Ifindex == index {
		s.deleteLogical(p)
	}
	s.reportMacvlan(l, macvlan{})
}

// deleteLogical deletes a logical port. Packets to it are dropped as port_down until the routes have changed.
func (s *state) deleteLogical(p *logical) {
	if s.hooks.PortDeleted != nil {
		s.hooks.PortDeleted(p.Number)
	}
	delete(s.logical, p.Number)
	s.fib.SetPort(uint16(p.Number), toMAC(p.mac), 0)
	s.fib.SetRPF(uint16(p.Number), fib.RPF{})
	s.closePort(p.Number)
	if p.isBond() {
		s.deleteBond(p)
	} else {
		s.fib.VLANs.Delete(uint16(p.Number), uint16(p.Parent), p.Tag)
	}
	s.forgetNeighborsOn(p.Ifindex)
	s.changed = true
}

// portName returns the name of a port for users.
func (s *state) portName(number int) string {
	if number < len(s.ports) {
		return s.ports[number].Name
	}
	if p := s.logical[number]; p != nil {
		return p.Name
	}
	return ""
}
