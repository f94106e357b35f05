package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// NexthopObject is a next-hop object (RTM_NEWNEXTHOP, RTM_DELNEXTHOP).
type NexthopObject struct {
	ID        uint32
	Family    uint8
	Protocol  uint8
	Blackhole bool
	FDB       bool     // next hop of bridge entries, not of routes
	Path      Path     // of an object without Group
	Group     []Member // members of a group, else nil
}

// Member is a next-hop object in a group.
type Member struct {
	ID     uint32
	Weight uint32 // at least 1
}

// Parse parses the data of a next-hop message.
func (n *NexthopObject) Parse(data []byte) error {
	const (
		sizeofNhmsg  = 8  // family, scope, protocol, reserved, flags
		sizeofMember = 8  // id, low byte of weight - 1, high byte, reserved
		nhaFDB       = 11 // NHA_FDB, missing in x/sys
	)
	*n = NexthopObject{Path: Path{Weight: 1}}
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
			n.Path.Index = int(int32(a.Uint32()))
		case unix.NHA_GATEWAY:
			n.Path.Gateway = a.addr()
		case unix.NHA_ENCAP:
			n.Path.Encap = true
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
