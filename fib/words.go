package fib

import (
	"fmt"

	"github.com/warproute/warproute/lookup"
)

// Kind says what happens to packets of a next hop.
type Kind uint8

const (
	KindNone        Kind = iota // no route
	KindForward                 // to a neighbour, by an adjacency or a group of them
	KindLocal                   // an address of this host
	KindBlackhole               // the route types of Linux
	KindUnreachable             //
	KindProhibit                //
	KindNoPort                  // leaves by an interface that is not a port of this router
)

var kinds = [...]string{"none", "forward", "local", "blackhole", "unreachable", "prohibit", "no port"}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// NextHop is one next-hop word.
//
//	 63  56 55  40 39 33  32  31          0
//	+------+------+-----+----+-------------+
//	| kind | MTU  |  0  | G  | index       |
//	+------+------+-----+----+-------------+
//
// Only KindForward has an index: of a group where G is set, else of an adjacency. The MTU
// is the route's own, in bytes of IP packet, 0 if it has none. Bit 33 is always 0: devices
// order their loads by it.
type NextHop uint64

const (
	groupBit = 1 << 32
	mtuShift = 40
)

func (w NextHop) Kind() Kind    { return Kind(w >> 56) }
func (w NextHop) Group() bool   { return w&groupBit != 0 }
func (w NextHop) Index() uint32 { return uint32(w) }
func (w NextHop) MTU() uint16   { return uint16(w >> mtuShift) }

// Limit returns what fits through the next hop by a port of an MTU: the smaller one, if
// the next hop has one of its own.
func (w NextHop) Limit(port uint16) uint16 {
	if m := w.MTU(); m-1 < port { // of none, m-1 is the largest number there is
		return m
	}
	return port
}

func makeNextHop(k Kind, mtu uint16, group bool, index uint32) NextHop {
	w := NextHop(k)<<56 | NextHop(mtu)<<mtuShift | NextHop(index)
	if group {
		w |= groupBit
	}
	return w
}

// Adjacency is one adjacency word: a neighbour's link address and its port.
//
//	 63                    16 15      0
//	+------------------------+---------+
//	| destination MAC        | port    |
//	+------------------------+---------+
//
// A MAC of zero means that the neighbour is not resolved; the bytes stand in
// network order, the first one uppermost.
type Adjacency uint64

func (w Adjacency) Resolved() bool { return w>>16 != 0 }
func (w Adjacency) Port() uint16   { return uint16(w) }
func (w Adjacency) MAC() MAC       { return MAC(w >> 16) }

// Port is one port word: what is written into frames that leave by the port.
//
//	 63                    16 15      0
//	+------------------------+---------+
//	| source MAC             | MTU     |
//	+------------------------+---------+
//
// An MTU of zero means that the port is down.
type Port uint64

func (w Port) MAC() MAC    { return MAC(w >> 16) }
func (w Port) MTU() uint16 { return uint16(w) }

// MAC is a link address in the lower 48 bits, its first byte uppermost.
type MAC uint64

// ParseMAC makes a MAC of the 6 bytes of a net.HardwareAddr.
func ParseMAC(b []byte) (MAC, error) {
	if len(b) != 6 {
		return 0, fmt.Errorf("link address % x has %d bytes; only Ethernet's 6 are supported", b, len(b))
	}
	var m MAC
	for _, x := range b {
		m = m<<8 | MAC(x)
	}
	return m, nil
}

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}

// ID is how the lookup tables name a next hop.
type ID = lookup.NextHop
