package fib

import (
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/lookup"
)

// Kind is the action of a next hop.
type Kind uint8

const (
	KindNone        Kind = iota // no route
	KindForward                 // to an adjacency or a group
	KindLocal                   // local address
	KindBlackhole               // route types of Linux
	KindUnreachable             //
	KindProhibit                //
	KindNoPort                  // over an interface that is not a port, maybe an XFRM interface
	KindNoTable                 // the ingress port is in a VRF whose table is missing
)

var kinds = [...]string{"none", "forward", "local", "blackhole", "unreachable", "prohibit", "no port", "no table"}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// NextHop is the word of a next hop. Its index in the array is a NextHopID.
//
//	 63  56 55  40 39 37 36  34 33 32 31    0
//	+------+------+-----+------+--+--+-------+
//	| kind | MTU  | 0   | exits| 0| G| index |
//	+------+------+-----+------+--+--+-------+
//
// KindForward has an index: of a group if G is set, else of an adjacency. So has KindNoPort over XFRM
// interfaces: of a group whose buckets hold values of if_id, else the if_id itself; 0 is another interface.
// The MTU is that of the route, or of the XFRM interface if it is smaller, in bytes of IP packet, 0 for none.
// Bit 33 is always 0: devices order their loads by it. Bits 34 to 36 of KindNoPort are its Exits, which
// engines do not read; 37 to 39 are not used.
type NextHop uint64

const (
	GroupShift = 32
	ZeroShift  = 33
	MTUShift   = 40
	KindShift  = 56
	MACShift   = 16 // of Adjacency and Port

	TaggedShift = 15 // of Adjacency
	UnusedShift = 14 // of Adjacency
)

// Exits of KindNoPort: how Linux reaches the destinations.
const (
	ExitIPv4   = 1 << iota // it forwards IPv4 packets to them
	ExitIPv6               // it forwards IPv6 packets to them
	ExitTunnel             // by the interface to the tunnels of the router only
)

const (
	exitShift         = 34
	exitMask  NextHop = 7 << exitShift
)

// Exits returns the exits of KindNoPort.
func (w NextHop) Exits() int { return int((w & exitMask) >> exitShift) }

func (w NextHop) Kind() Kind    { return Kind(w >> KindShift) }
func (w NextHop) Group() bool   { return w&(1<<GroupShift) != 0 }
func (w NextHop) Index() uint32 { return uint32(w) }
func (w NextHop) MTU() uint16   { return uint16(w >> MTUShift) }

// Limit returns the effective MTU over a port: the smaller of the MTUs of route and port.
func (w NextHop) Limit(port uint16) uint16 {
	if m := w.MTU(); m-1 < port { // 0 wraps around
		return m
	}
	return port
}

func makeNextHop(k Kind, mtu uint16, group bool, index uint32) NextHop {
	w := NextHop(k)<<KindShift | NextHop(mtu)<<MTUShift | NextHop(index)
	if group {
		w |= 1 << GroupShift
	}
	return w
}

// Adjacency is the word of an adjacency: the MAC address of a neighbor and its port.
//
//	 63                    16 15 14 12 11      0
//	+------------------------+--+-----+---------+
//	| destination MAC        | T| 0   | port    |
//	+------------------------+--+-----+---------+
//
// A MAC of zero means unresolved. The first byte is the most significant. T is set if the port has a tag (TagWords). Bit 14 is
// always 0: devices order their loads by it.
type Adjacency uint64

func (w Adjacency) Resolved() bool { return w>>MACShift != 0 }
func (w Adjacency) Port() uint16   { return uint16(w) & (batch.MaxPorts - 1) }
func (w Adjacency) Tagged() bool   { return w&(1<<TaggedShift) != 0 }
func (w Adjacency) MAC() MAC       { return MAC(w >> MACShift) }

// Port is the word of a port, for frames transmitted on it.
//
//	 63                    16 15      0
//	+------------------------+---------+
//	| source MAC             | MTU     |
//	+------------------------+---------+
//
// An MTU of zero means that the port is down.
type Port uint64

func (w Port) MAC() MAC    { return MAC(w >> MACShift) }
func (w Port) MTU() uint16 { return uint16(w) }

// TagWords are the VLAN tags that engines add to frames, by egress port.
type TagWords [batch.MaxPorts]uint64

// Tags returns the tag words, which are in the array of ports behind the words of all ports.
func (w Words) Tags() *TagWords { return (*TagWords)(w.Ports[batch.MaxPorts:]) }

// Of returns the tag of a port as it is in a frame, loaded in little-endian order, 0 for none.
func (t *TagWords) Of(port uint16) uint32 { return uint32(atomic.LoadUint64(&t[port%batch.MaxPorts])) }

// MAC is a MAC address in the lower 48 bits, first byte most significant.
type MAC uint64

// ParseMAC converts the 6 bytes of a net.HardwareAddr.
func ParseMAC(b []byte) (MAC, error) {
	if len(b) != 6 {
		return 0, fmt.Errorf("MAC address % x has %d bytes, want 6", b, len(b))
	}
	var m MAC
	for _, x := range b {
		m = m<<8 | MAC(x)
	}
	return m, nil
}

// Bytes returns the address, first byte first.
func (m MAC) Bytes() [6]byte {
	return [6]byte{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}

// NextHopID is the index of a next hop, the value of the lookup tables.
type NextHopID = lookup.NextHopID
