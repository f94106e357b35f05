package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// request is a message under construction.
type request []byte

func newRequest(kind, flags uint16, seq uint32, body ...byte) request {
	b := make(request, unix.NLMSG_HDRLEN, 64)
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], seq)
	return append(b, body...)
}

func (b request) attr(kind uint16, value []byte) request { return AppendAttr(b, kind, value) }

// AppendAttr appends an attribute to a message, with the padding behind it.
func AppendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

func (b request) bytes() []byte {
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return b
}

// A Query asks for a dump of everything of one sort.
type Query struct {
	kind uint16
	body []byte
	link int
}

// NewQuery asks for what messages of a type list, in any netlink family.
func NewQuery(kind uint16, body []byte) Query { return Query{kind: kind, body: body} }

// Links asks for all links.
func Links() Query { return Query{kind: unix.RTM_GETLINK, body: make([]byte, unix.SizeofIfInfomsg)} }

// Routes asks for the routes of a family, unix.AF_INET or AF_INET6, in all tables.
func Routes(family uint8) Query {
	return Query{kind: unix.RTM_GETROUTE, body: familyFirst(family, unix.SizeofRtMsg)}
}

// Over narrows a query for routes to those with a hop over a link.
func (q Query) Over(link int) Query {
	q.link = link
	return q
}

// Nexthops asks for all next-hop objects.
func Nexthops() Query { return Query{kind: unix.RTM_GETNEXTHOP, body: make([]byte, 8)} }

// Neighbors asks for the neighbours of a family.
func Neighbors(family uint8) Query {
	return Query{kind: unix.RTM_GETNEIGH, body: familyFirst(family, unix.SizeofNdMsg)}
}

// Rules asks for the policy rules of a family.
func Rules(family uint8) Query {
	return Query{kind: unix.RTM_GETRULE, body: familyFirst(family, 12)}
}

func familyFirst(family uint8, size int) []byte {
	b := make([]byte, size)
	b[0] = family
	return b
}

func (q Query) request(seq uint32) []byte {
	b := newRequest(q.kind, unix.NLM_F_DUMP, seq, q.body...)
	if q.link != 0 {
		b = b.attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(q.link)))
	}
	return b.bytes()
}

// useNeighbor is the body of what `ip neigh add dev LINK ADDR use` sends.
func useNeighbor(link int, addr netip.Addr) []byte {
	body := familyFirst(unix.AF_INET6, unix.SizeofNdMsg)
	if addr.Is4() {
		body[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(body[4:], uint32(link))
	body[10] = unix.NTF_USE
	return AppendAttr(body, unix.NDA_DST, addr.AsSlice())
}
