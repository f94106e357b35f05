package gen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// Traffic is the packets to send. Their family is that of Dst.
type Traffic struct {
	// Src and Dst are the addresses. Flows are spread over the hosts of a prefix; Host is the prefix
	// of a single one. The first and the last address of an IPv4 prefix and the first of an IPv6
	// prefix are not used, because routers do not forward to them.
	Src, Dst netip.Prefix
	// Random chooses addresses pseudo-randomly by Seed; two flows can get the same one.
	Random bool
	Seed   uint64
	// Flows is the number of flows, with different UDP source ports and, if Src and Dst have
	// several, addresses. 0 means 1.
	Flows int

	// Size is the size of a frame in bytes with FCS: 64 are 60 bytes in memory. 0 means the
	// smallest: 64 with IPv4 and 84 with IPv6, to hold a probe.
	Size int
	// IMIX sends frames of 64 (84), 594 and 1518 bytes, 7:4:1, instead of Size.
	IMIX bool

	DstMAC net.HardwareAddr // of the router
	SrcMAC net.HardwareAddr // nil: of the sending port
}

// Host returns the prefix of one address.
func Host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

const (
	fcsLen  = 4
	maxSize = 1518
	// MaxFlows limits the memory: a flow needs some 80 bytes per size at the sender and at least
	// 128 at the receiver.
	MaxFlows = 1 << 20
)

// imix is a cycle of twelve sizes; 0 is the smallest.
var imix = [12]int{0, 594, 0, 594, 0, 0, 1518, 0, 594, 0, 594, 0}

// leastSize returns the size of the smallest frame with a probe, with FCS.
func leastSize(ipv6 bool) int { return layoutOf(ipv6).head + fcsLen }

func (t *Traffic) ipv6() bool { return t.Dst.Addr().Is6() }

// FirstDst returns the destination of the first flow. All should have the same next hop.
func (t *Traffic) FirstDst() netip.Addr {
	dst := t.spreadDst()
	return dst.host(0)
}

// Check returns an error for traffic that no port can send. Missing values are valid.
func (t *Traffic) Check() error {
	least := leastSize(t.ipv6())
	switch {
	case !t.Dst.IsValid():
		return errors.New("no destination address")
	case t.Src.IsValid() && t.Src.Addr().Is6() != t.ipv6():
		return fmt.Errorf("source %v and destination %v are of different families", t.Src, t.Dst)
	case t.Flows < 0 || t.Flows > MaxFlows:
		return fmt.Errorf("%d flows: 1 to %d are possible", t.Flows, MaxFlows)
	case t.Size != 0 && t.Size < least && t.ipv6():
		return fmt.Errorf("frames of %d bytes: at least %d with IPv6, to hold flow, sequence number and time", t.Size, least)
	case t.Size != 0 && t.Size < least || t.Size > maxSize:
		return fmt.Errorf("frames of %d bytes: %d to %d with FCS are possible", t.Size, least, maxSize)
	case t.IMIX && t.Size != 0:
		return fmt.Errorf("frames of %d bytes and IMIX exclude each other", t.Size)
	}
	return nil
}

// complete sets defaults for a port and checks that the port can send the traffic.
func (t *Traffic) complete(tx *Port) error {
	if err := t.Check(); err != nil {
		return err
	}
	t.Flows = max(t.Flows, 1)
	if t.SrcMAC == nil {
		t.SrcMAC = tx.MAC
	}
	if t.Size == 0 && !t.IMIX {
		t.Size = leastSize(t.ipv6())
	}
	largest := t.Size
	if t.IMIX {
		largest = maxSize
	}
	switch {
	case !t.Src.IsValid():
		return errors.New("no source address")
	case len(t.DstMAC) != 6 || len(t.SrcMAC) != 6:
		return fmt.Errorf("MAC addresses %q and %q: 6 bytes each are needed", t.DstMAC, t.SrcMAC)
	}
	if packetLen := largest - fcsLen - packet.EthernetLen; tx.MTU > 0 && packetLen > tx.MTU {
		return fmt.Errorf("frames of %d bytes do not fit port %s, whose MTU is %d (`ip link set %s mtu %d`)", largest, tx.Name, tx.MTU, tx.Name, packetLen)
	}
	return nil
}

func (t *Traffic) spreadSrc() spread { return newSpread(t.Src, t.Random, t.Seed) }
func (t *Traffic) spreadDst() spread { return newSpread(t.Dst, t.Random, ^t.Seed) }

// sizes returns the different lengths of frames in memory, and the sending order as indices of them.
func (t *Traffic) sizes() (lengths []int, order []int) {
	if !t.IMIX {
		return []int{t.Size - fcsLen}, []int{0}
	}
	least := leastSize(t.ipv6())
	lengths = []int{least - fcsLen, 594 - fcsLen, 1518 - fcsLen}
	for _, size := range imix {
		index := map[int]int{0: 0, 594: 1, 1518: 2}[size]
		order = append(order, index)
	}
	return lengths, order
}

// UDP source ports are assigned to flows in order.
const (
	firstPort = 1024
	numPorts  = 1<<16 - firstPort
)

func sourcePort(flow int) uint16 { return uint16(firstPort + flow%numPorts) }

// spread assigns a host of a prefix to each flow.
type spread struct {
	base   netip.Addr
	first  uint64 // added to base
	hosts  uint64
	random bool
	seed   uint64
}

func newSpread(p netip.Prefix, random bool, seed uint64) spread {
	s := spread{base: p.Masked().Addr(), random: random, seed: seed}
	free := min(p.Addr().BitLen()-p.Bits(), 63) // bits
	s.hosts = 1 << free
	if p.Addr().Is4() && free >= 2 {
		s.first, s.hosts = 1, s.hosts-2 // neither network nor broadcast
	} else if p.Addr().Is6() && free >= 1 {
		s.first, s.hosts = 1, s.hosts-1 // not the subnet's routers' anycast (RFC 4291, 2.6.1)
	}
	return s
}

// host returns the address of a flow.
func (s *spread) host(flow int) netip.Addr {
	n := uint64(flow)
	if s.random {
		n = scramble(n + s.seed)
	}
	return add(s.base, s.first+n%s.hosts)
}

// scramble is the output function of SplitMix64, a pseudo-random bijection.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add returns the address n after a.
func add(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	if a.Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
