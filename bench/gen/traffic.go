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

// Traffic says what to send. Its family is that of Dst.
type Traffic struct {
	// Src and Dst are the addresses, spread over the hosts of a prefix, one flow
	// after the other: see Host for a single one. The first and the last address
	// of an IPv4 prefix and the first of an IPv6 prefix are left out; no router
	// forwards to them.
	Src, Dst netip.Prefix
	// Random spreads them in no order, by Seed, and may give two flows one address.
	Random bool
	Seed   uint64
	// Flows differ in their UDP source port, and in their addresses where Src and
	// Dst have several. 0 means 1.
	Flows int

	// Size of a frame in bytes with its FCS, as is usual: 64 are 60 bytes in
	// memory. 0 means the least: 64 with IPv4 and 84 with IPv6, whose probe does
	// not fit less.
	Size int
	// IMIX sends frames of 64 (84), 594 and 1518 bytes as 7:4:1, in place of Size.
	IMIX bool

	DstMAC net.HardwareAddr // of the router that is to forward the frames
	SrcMAC net.HardwareAddr // nil: the sending port's
}

// Host is the prefix of one address alone.
func Host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

const (
	fcsLen  = 4
	maxSize = 1518
	// MaxFlows bounds the memory: a flow takes some 80 bytes of template a size
	// and 128 or more at the receiver.
	MaxFlows = 1 << 20
)

// imix is the mix of sizes: 0 stands for the least. Sizes of one kind are spread
// apart, and twelve frames are the whole.
var imix = [12]int{0, 594, 0, 594, 0, 0, 1518, 0, 594, 0, 594, 0}

// leastSize is the least frame that a probe fits, with FCS.
func leastSize(ipv6 bool) int { return layoutOf(ipv6).head + fcsLen }

func (t *Traffic) ipv6() bool { return t.Dst.Addr().Is6() }

// FirstDst is the destination of the first flow: all should have the same next hop.
func (t *Traffic) FirstDst() netip.Addr {
	dst := t.spreadDst()
	return dst.host(0)
}

// Check refuses what cannot be sent, whatever the port. What is left to be
// completed by the port or by defaults is right.
func (t *Traffic) Check() error {
	least := leastSize(t.ipv6())
	switch {
	case !t.Dst.IsValid():
		return errors.New("no destination address")
	case t.Src.IsValid() && t.Src.Addr().Is6() != t.ipv6():
		return fmt.Errorf("source %v and destination %v are not of one family", t.Src, t.Dst)
	case t.Flows < 0 || t.Flows > MaxFlows:
		return fmt.Errorf("%d flows: take 1 to %d", t.Flows, MaxFlows)
	case t.Size != 0 && t.Size < least && t.ipv6():
		return fmt.Errorf("frames of %d bytes: with IPv6 they have at least %d, to hold flow, number and time", t.Size, least)
	case t.Size != 0 && t.Size < least || t.Size > maxSize:
		return fmt.Errorf("frames of %d bytes: they have %d to %d, with FCS", t.Size, least, maxSize)
	case t.IMIX && t.Size != 0:
		return fmt.Errorf("frames of %d bytes and of a mix: take one of both", t.Size)
	}
	return nil
}

// complete fills in the defaults for a port and refuses what does not fit it.
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

// sizes returns the lengths of frames in memory, each once, and the order in
// which they are sent, as indices of lengths.
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

// ports are the UDP source ports that flows have in turn.
const (
	firstPort = 1024
	numPorts  = 1<<16 - firstPort
)

func sourcePort(flow int) uint16 { return uint16(firstPort + flow%numPorts) }

// spread gives each flow a host of a prefix.
type spread struct {
	base   netip.Addr
	first  uint64 // added to base
	hosts  uint64
	random bool
	seed   uint64
}

func newSpread(p netip.Prefix, random bool, seed uint64) spread {
	s := spread{base: p.Masked().Addr(), random: random, seed: seed}
	free := min(p.Addr().BitLen()-p.Bits(), 63) // bits; nobody runs out of 2^63 hosts
	s.hosts = 1 << free
	if p.Addr().Is4() && free >= 2 {
		s.first, s.hosts = 1, s.hosts-2 // neither network nor broadcast
	} else if p.Addr().Is6() && free >= 1 {
		s.first, s.hosts = 1, s.hosts-1 // not the subnet's routers' anycast (RFC 4291, 2.6.1)
	}
	return s
}

// host is the address of a flow.
func (s *spread) host(flow int) netip.Addr {
	n := uint64(flow)
	if s.random {
		n = scramble(n + s.seed)
	}
	return add(s.base, s.first+n%s.hosts)
}

// scramble is the output function of SplitMix64: a bijection that looks random.
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
