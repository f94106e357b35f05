package testutil

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// Traffic generates random frames, with the rare kinds often: both families, tunnels in each other,
// chains of extension headers, fragments, correct, unfinished and wrong L4 checksums, padding.
type Traffic struct {
	Rand *rand.Rand
	To   []netip.Prefix // destinations, but for one in sixteen, which is anything
}

// Frame returns the next frame.
func (t *Traffic) Frame() []byte {
	p, ipv6 := t.packet(t.payload)
	ethertype := []byte{8, 0}
	if ipv6 {
		ethertype = []byte{0x86, 0xdd}
	}
	f := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, ethertype...)
	f = append(f, p...)
	if t.one(4) { // Ethernet's shortest frame, or more
		f = append(f, make([]byte, max(60-len(f), t.Rand.IntN(8), 0))...)
	}
	return f
}

// one returns true with probability 1/n.
func (t *Traffic) one(n int) bool { return t.Rand.IntN(n) == 0 }

func (t *Traffic) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(t.Rand.Uint32())
	}
	return b
}

// payload returns a random upper-layer packet.
func (t *Traffic) payload() (proto byte, l4 []byte) {
	if t.one(3) {
		return t.tunnel()
	}
	return t.segment()
}

// segment returns a transport header and data without a correct checksum.
func (t *Traffic) segment() (proto byte, l4 []byte) {
	size := t.Rand.IntN(100)
	if t.one(16) {
		size = t.Rand.IntN(1200)
	}
	protos := []byte{6, 6, 6, 17, 17, 17, 33, 132, 136, 1, 58, 59, byte(t.Rand.Uint32())}
	proto = protos[t.Rand.IntN(len(protos))]
	switch proto {
	case 6:
		return proto, t.bytes(20 + size)
	case 17:
		return proto, t.udp(uint16(t.Rand.Uint32()), t.bytes(size))
	}
	return proto, t.bytes(size)
}

func (t *Traffic) udp(port uint16, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(t.Rand.Uint32()))
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}

// tunnel returns a packet in a tunnel header.
func (t *Traffic) tunnel() (proto byte, l4 []byte) {
	inner, ipv6 := t.packet(t.segment)
	proto, ethertype := byte(4), []byte{8, 0}
	if ipv6 {
		proto, ethertype = 41, []byte{0x86, 0xdd}
	}
	framed := append(append(t.bytes(12), ethertype...), inner...)
	switch t.Rand.IntN(6) {
	case 0:
		return proto, inner
	case 1: // GRE, with some of its fields
		flags := byte(t.Rand.Uint32()) & 0xb0
		head := append([]byte{flags, 0}, ethertype...)
		for bit := byte(0x10); bit != 0; bit <<= 1 {
			if flags&bit != 0 {
				head = append(head, t.bytes(4)...)
			}
		}
		return 47, append(head, inner...)
	case 2:
		return 47, append([]byte{0, 0, 0x65, 0x58}, framed...)
	case 3: // GENEVE, with options
		options := []int{0, 1, 2, 40}[t.Rand.IntN(4)]
		head := append([]byte{byte(options), 0, 0x65, 0x58, 0, 0, 1, 0}, t.bytes(4*options)...)
		return 17, t.udp(6081, append(head, framed...))
	case 4:
		return 17, t.udp(8472, append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, framed...))
	}
	return 17, t.udp(4789, append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, framed...))
}

// packet returns an IP packet with a payload of next.
func (t *Traffic) packet(next func() (byte, []byte)) (p []byte, ipv6 bool) {
	proto, l4 := next()
	src, dst := t.addresses()
	if ipv6 = dst.Is6(); ipv6 {
		return t.ipv6(src, dst, proto, l4), true
	}
	return t.ipv4(src, dst, proto, l4), false
}

func (t *Traffic) addresses() (src, dst netip.Addr) {
	to := t.To[t.Rand.IntN(len(t.To))]
	if to.Addr().Is4() {
		src = netip.AddrFrom4([4]byte{192, 0, 2, byte(t.Rand.Uint32())})
	} else {
		src = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(t.Rand.Uint32())})
	}
	if t.one(16) {
		src = t.anything(src)
	}
	if t.one(16) {
		return src, t.anything(src)
	}
	b := to.Addr().AsSlice()
	for i := to.Bits(); i < 8*len(b); i++ {
		b[i/8] |= byte(t.Rand.Uint32()) & (1 << (7 - i%8))
	}
	dst, _ = netip.AddrFromSlice(b)
	return src, dst
}

// anything returns an address of like's family: random, or close to a martian.
func (t *Traffic) anything(like netip.Addr) netip.Addr {
	special := []string{
		"0.0.0.0", "0.1.2.3", "1.0.0.0", "126.255.255.255", "127.0.0.1", "128.0.0.0", "169.253.255.255", "169.254.0.0",
		"169.254.255.255", "169.255.0.0", "223.255.255.255", "224.0.0.0", "240.0.0.1", "255.255.255.255",
	}
	if like.Is6() {
		special = []string{
			"::", "::1", "::2", "::1:0", "::ffff:0:0", "::ffff:a01:1", "::fffe:a01:1", "::1:ffff:0:0", "1::", "0:1::1", "0:0:1::",
			"fe7f::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff00::", "ff02::1", "ffff::",
		}
	}
	if t.one(4) {
		a, _ := netip.AddrFromSlice(t.bytes(like.BitLen() / 8))
		return a
	}
	return netip.MustParseAddr(special[t.Rand.IntN(len(special))])
}

// ttl returns a TTL, sometimes one that expires.
func (t *Traffic) ttl() byte {
	if t.one(16) {
		return byte(t.Rand.IntN(3))
	}
	return 64
}

func (t *Traffic) ipv4(src, dst netip.Addr, proto byte, l4 []byte) []byte {
	p := append([]byte{0x45, 0, 0, 0}, t.bytes(2)...)
	p = append(p, 0, 0, t.ttl(), proto, 0, 0)
	if t.one(8) { // a fragment, or one that must not become any
		binary.BigEndian.PutUint16(p[6:], uint16([]int{0x4000, 0x2000, 1, 2, 0x2001, 0x2010, 0x3fff}[t.Rand.IntN(7)]))
	}
	p = append(append(p, src.AsSlice()...), dst.AsSlice()...)
	t.checksum(p[12:20], proto, l4)
	p = append(p, l4...)
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	fixIPv4(p)
	return p
}

func (t *Traffic) ipv6(src, dst netip.Addr, proto byte, l4 []byte) []byte {
	next, chain := proto, []byte(nil)
	if t.one(3) {
		next, chain = t.chain(proto)
	}
	p := append([]byte{0x60}, t.bytes(3)...)
	p = binary.BigEndian.AppendUint16(p, uint16(len(chain)+len(l4)))
	p = append(append(p, next, t.ttl()), src.AsSlice()...)
	p = append(p, dst.AsSlice()...)
	t.checksum(p[8:40], proto, l4)
	return append(append(p, chain...), l4...)
}

// chain returns up to ten extension headers before a header of type proto.
func (t *Traffic) chain(proto byte) (first byte, chain []byte) {
	n := 1 + t.Rand.IntN(3)
	if t.one(4) {
		n = 1 + t.Rand.IntN(10)
	}
	for first = proto; n > 0; n-- {
		kind := []byte{0, 43, 44, 51, 60}[t.Rand.IntN(5)]
		h := t.bytes(8 * (1 + t.Rand.IntN(3)))
		h[0], h[1] = first, byte(len(h)/8-1)
		switch kind {
		case 43: // seldom of type 0
			h[2], h[3] = byte(t.Rand.IntN(4)), byte(t.Rand.IntN(2))
		case 44: // mostly the first fragment
			h = h[:8]
			h[2], h[3] = 0, byte(t.Rand.IntN(9))
		case 51:
			h = append(h, t.bytes(4*t.Rand.IntN(2))...)
			h[1] = byte(len(h)/4 - 2)
		}
		first, chain = kind, append(h, chain...)
	}
	return first, chain
}

// checksum sets the checksum of a segment: correct, absent, wrong, unfinished, or zero when finished.
func (t *Traffic) checksum(addrs []byte, proto byte, l4 []byte) {
	at := map[byte]int{6: 16, 17: 6}[proto]
	if at == 0 || len(l4) < at+2 {
		return
	}
	sum := pseudo(addrs, proto, len(l4))
	binary.BigEndian.PutUint16(l4[at:], sum)
	switch t.Rand.IntN(8) {
	case 0:
		binary.BigEndian.PutUint16(l4[at:], 0)
	case 1:
		binary.BigEndian.PutUint16(l4[at:], uint16(t.Rand.Uint32()))
	case 2, 3, 4:
		binary.BigEndian.PutUint16(l4[at:], ^Sum(l4))
	case 5:
		if len(l4) >= 10 {
			binary.BigEndian.PutUint16(l4[8:], 0)
			binary.BigEndian.PutUint16(l4[8:], ^Sum(l4))
		}
	}
}
