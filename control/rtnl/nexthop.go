package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Nexthop is a next-hop object (RTM_NEWNEXTHOP, RTM_DELNEXTHOP).
type Nexthop struct {
	ID        uint32
	Family    uint8
	Protocol  uint8
	Blackhole bool
	FDB       bool     // of a bridge's, not for routes
	Hop       Hop      // of an object that is no group
	Group     []Member // nil if it is no group
}

// Member is another object in a group.
type Member struct {
	ID     uint32
	Weight uint32 // at least 1
}

// Parse reads the data of a next-hop message.
func (n *Nexthop) Parse(data []byte) error {
	const (
		sizeofNhmsg  = 8  // family, scope, protocol, reserved, flags
		sizeofMember = 8  // id, weight - 1, its upper byte, reserved
		nhaFDB       = 11 // which x/sys does not name
	)
	*n = Nexthop{Hop: Hop{Weight: 1}}
	h, a := Header(data, sizeofNhmsg)
	if h != nil {
		n.Family, n.Protocol = h[0], h[2]
	}
	for a.Next() {
		switch a.Kind {
		case unix.NHA_ID:
			n.ID = a.Uint32()
		case unix.NHA_BLACKHOLE:
			n.Blackhole = true
		case nhaFDB:
			n.FDB = true
		case unix.NHA_OIF:
			n.Hop.Index = int(int32(a.Uint32()))
		case unix.NHA_GATEWAY:
			n.Hop.Gateway = a.addr()
		case unix.NHA_ENCAP:
			n.Hop.Encap = true
		case unix.NHA_GROUP:
			n.Group = make([]Member, 0, len(a.Value)/sizeofMember)
			for b := a.Value; len(b) >= sizeofMember; b = b[sizeofMember:] {
				n.Group = append(n.Group, Member{
					ID:     binary.NativeEndian.Uint32(b),
					Weight: 1 + uint32(b[4]) + uint32(b[5])<<8,
				})
			}
		}
	}
	return wrap("next-hop message", a.Err)
}
