package e2e

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/warproute/warproute/internal/testutil"
)

// probe is a packet that both routers get.
type probe struct {
	id    uint32
	side  int // that it is sent from
	frame []byte
}

func (p *probe) packet() []byte { return p.frame[14:] }

// payload is n bytes of tags, each followed by eight that count.
func (p *probe) payload(n int) []byte {
	b := make([]byte, 0, n+16)
	for i := uint64(0); len(b) < n; i++ {
		b = binary.BigEndian.AppendUint32(b, magic)
		b = binary.BigEndian.AppendUint32(b, p.id)
		b = binary.BigEndian.AppendUint64(b, i*0x0101010101)
	}
	return b[:n]
}

func (p *probe) link(etherType uint16, packet []byte) {
	p.frame = append(append(bytes.Clone(routerMAC(p.side)), hostMAC(p.side)...), byte(etherType>>8), byte(etherType))
	p.frame = append(p.frame, packet...)
}

// segment is a transport header and a payload, with a right checksum.
func (p *probe) segment(proto byte, size int, addrs []byte) []byte {
	var b []byte
	at := -1
	switch proto {
	case 6:
		b = []byte{byte(p.id >> 8), byte(p.id), 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 0, 0, 0}
		at = 16
	case 17:
		b = []byte{byte(p.id >> 8), byte(p.id) | 1, 0x82, 0x9a, byte((size + 8) >> 8), byte(size + 8), 0, 0}
		at = 6
	case 1:
		b = []byte{8, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 1}
		at = 2
	case 58:
		b = []byte{128, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 1}
		at = 2
	}
	b = append(b, p.payload(size)...)
	p.finish(b, at, proto, addrs)
	return b
}

// finish computes an L4 checksum.
func (p *probe) finish(b []byte, at int, proto byte, addrs []byte) {
	if at < 0 || at+2 > len(b) {
		return
	}
	b[at], b[at+1] = 0, 0
	if proto != 1 {
		pseudo := append(bytes.Clone(addrs), 0, proto, byte(len(b)>>8), byte(len(b)))
		binary.BigEndian.PutUint16(b[at:], ^testutil.Sum(append(pseudo, b...)))
	} else {
		binary.BigEndian.PutUint16(b[at:], ^testutil.Sum(b))
	}
}

// ipv4 makes the probe a plain packet.
func (p *probe) ipv4(src, dst netip.Addr, ttl, proto byte) { p.ipv4Of(src, dst, ttl, proto, 32) }

func (p *probe) ipv4Of(src, dst netip.Addr, ttl, proto byte, size int) {
	addrs := append(src.AsSlice(), dst.AsSlice()...)
	l4 := p.segment(proto, size, addrs)
	h := []byte{0x45, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 0, ttl, proto, 0, 0}
	h = append(h, addrs...)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(l4)))
	binary.BigEndian.PutUint16(h[10:], ^testutil.Sum(h))
	p.link(0x0800, append(h, l4...))
}

// ipv6Of makes the probe a packet with extension headers.
func (p *probe) ipv6Of(src, dst netip.Addr, ttl byte, first byte, chain []byte, proto byte, size int) {
	addrs := append(src.AsSlice(), dst.AsSlice()...)
	l4 := p.segment(proto, size, addrs)
	h := []byte{0x60, 0, 0, 0, 0, 0, first, ttl}
	h = append(append(h, addrs...), chain...)
	binary.BigEndian.PutUint16(h[4:], uint16(len(chain)+len(l4)))
	p.link(0x86dd, append(h, l4...))
}

// arp makes the probe a question for an address.
func (p *probe) arp(who netip.Addr) {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, hostMAC(p.side)...)
	b = append(append(b, side4(p.side, 2).AsSlice()...), 0, 0, 0, 0, 0, 0)
	p.link(0x0806, append(b, who.AsSlice()...))
	copy(p.frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
}

// maker makes probes up: most of them with one or two things that are not plain, or none.
type maker struct {
	*rand.Rand
	own6 []string // addresses of the router's host
}

func (m maker) one(n int) bool { return m.IntN(n) == 0 }

func pick[T any](m maker, from ...T) T { return from[m.IntN(len(from))] }

// addresses of a family, by what is special about them. Some are patterns: an x is any byte.
var (
	plain4    = []string{"10.20.0.1", "10.20.x.x", "10.20.x.x", "10.21.x.x", "10.25.x.x", "10.8.0.3", "10.9.0.4"}
	special4  = []string{"10.22.x.x", "10.23.x.x", "10.24.x.x", "10.20.5.x", "10.28.x.x", "172.16.x.x", "8.8.8.8"}
	martian4  = []string{"0.0.0.0", "0.x.x.x", "127.0.0.1", "127.x.x.x", "169.254.x.x", "224.0.0.5", "224.x.x.x", "239.x.x.x", "240.x.x.x", "255.255.255.255"}
	own4      = []string{"10.7.0.1", "10.8.0.1", "10.9.0.1", "10.7.0.255", "10.8.0.255"}
	back4     = []string{"10.7.0.2", "10.7.0.3", "10.40.x.x", "10.63.x.x"} // behind lan
	elsewhere = []string{"10.20.x.x", "10.21.x.x", "10.28.x.x", "10.24.x.x", "10.22.x.x"}
	plain6    = []string{"fd20::1", "fd20::xx", "fd20::xx", "fd21::xx", "fd08::3", "fd09::4"}
	special6  = []string{"fd22::xx", "fd23::xx", "fd24::xx", "fd20:5::xx", "fd99::xx", "2001:db8::xx"}
	martian6  = []string{"::", "::1", "::2", "::ffff:10.20.0.1", "fe80::xx", "febf::1", "fec0::1", "ff01::1", "ff02::1", "ff05::xx", "ff0e::xx", "64:ff9b::a14:1"}
	own6      = []string{"fd07::1", "fd08::1", "fd09::1"}
	back6     = []string{"fd07::2", "fd07::3", "fd32:1::xx", "fd32:2::xx"}
	otherwise = []string{"fd20::xx", "fd21::xx", "fd99::xx", "fd24::xx", "fd22::xx", "fd07::2", "fd08::2"}
)

// address returns one of a list, of which an x is any byte.
func (m maker) address(list []string) netip.Addr {
	text := []byte(list[m.IntN(len(list))])
	out := make([]byte, 0, len(text)+8)
	for _, c := range text {
		switch {
		case c != 'x':
			out = append(out, c)
		case bytes.IndexByte(text, ':') >= 0:
			out = append(out, "0123456789abcdef"[m.IntN(16)])
		default:
			out = strconv.AppendInt(out, 1+m.Int64N(254), 10)
		}
	}
	return netip.MustParseAddr(string(out))
}

// next makes a probe.
func (m maker) next(id uint32, side int) *probe {
	for {
		p := &probe{id: id, side: side}
		if m.one(200) {
			p.arp(side4(m.IntN(len(sides)), 1+m.IntN(2)))
			return p
		}
		if m.one(2) {
			m.four(p)
		} else {
			m.six(p)
		}
		if m.one(12) {
			m.onLink(p)
		}
		longest := 14 + 1500
		if side == narSide {
			longest = 14 + narMTU
		}
		if len(p.frame) >= 14 && len(p.frame) <= longest && !waits(p.frame) && p.known() {
			return p
		}
	}
}

// known reports whether what becomes of a probe will be known as its: what comes without
// its end, or in pieces, comes from a source of its own.
func (p *probe) known() bool {
	b, end := p.packet(), len(p.frame)-14
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		if end = min(end, int(binary.BigEndian.Uint16(b[2:]))); end > narMTU {
			end = 20 // of a last piece little is left but the header
		}
	case len(b) >= 40 && b[0]>>4 == 6:
		end = min(end, 40+int(binary.BigEndian.Uint16(b[4:])))
	}
	id, is := tagOf(p.frame[:14+end])
	return !is && end < 20 || is && id == p.id // nothing comes of half a header
}

// four makes an IPv4 probe.
func (m maker) four(p *probe) {
	src, dst, ttl := source4(p.side, p.id), m.address(plain4), byte(64)
	if p.side != lanSide {
		dst = m.address(back4)
	}
	if m.one(6) {
		ttl = pick[byte](m, 0, 1, 1, 2, 255)
	}
	if m.one(6) {
		dst = m.address(pick(m, special4, special4, martian4, own4, back4))
	}
	if m.one(12) {
		src = m.address(pick(m, martian4, elsewhere, own4))
	}
	size := m.IntN(64)
	switch m.IntN(8) {
	case 0:
		size = m.IntN(1452)
	case 1:
		size = 1300 - 48 + m.IntN(40)
	}
	proto := pick[byte](m, 17, 17, 17, 6, 6, 1, 1, byte(m.Uint32()))
	if proto == 58 {
		proto = 59
	}
	p.ipv4Of(src, dst, ttl, proto, size+16)
	b := p.packet()
	if proto == 1 && m.one(2) { // another message than an echo request
		b[20], b[21] = pick[byte](m, 0, 3, 4, 5, 8, 9, 10, 11, 12, 13, 17, 42, 99), byte(m.IntN(3))
		p.finish(b[20:], 2, 1, nil)
	}
	if m.one(3) {
		b[1] = byte(m.Uint32())
	}
	if m.one(3) {
		b[6] |= 0x40
	}
	if m.one(10) {
		binary.BigEndian.PutUint16(b[6:], pick[uint16](m, 0x2000, 1, 2, 0x2001, 0x2010, 0x3fff, 0x1fff, 0x8000, 0x6000, 0x4007, 0x1ff0))
	}
	if m.one(24) && proto != 1 { // L4 checksums: wrong, none, unfinished
		m.spoil(b[20:], proto, b[12:20])
	}
	if m.one(20) {
		b = m.options(b)
		p.link(0x0800, b)
		b = p.packet()
	}
	mend4(b)
	if m.one(16) {
		m.breakIPv4(p)
	}
}

// spoil changes the checksum of a TCP or UDP segment.
func (m maker) spoil(l4 []byte, proto byte, addrs []byte) {
	at := map[byte]int{6: 16, 17: 6}[proto]
	if at == 0 {
		return
	}
	switch m.IntN(3) {
	case 0:
		binary.BigEndian.PutUint16(l4[at:], uint16(m.Uint32()))
	case 1:
		binary.BigEndian.PutUint16(l4[at:], 0)
	case 2:
		pseudo := append(bytes.Clone(addrs), 0, proto, byte(len(l4)>>8), byte(len(l4)))
		binary.BigEndian.PutUint16(l4[at:], testutil.Sum(pseudo))
	}
}

// options puts options behind a header.
func (m maker) options(b []byte) []byte {
	o := pick(m,
		[]byte{1, 1, 1, 0}, []byte{7, 7, 4, 0, 0, 0, 0, 0}, []byte{148, 4, 0, 0},
		[]byte{131, 7, 4, 10, 20, 0, 9, 0}, []byte{137, 7, 4, 10, 20, 0, 9, 0}, []byte{0x99, 4, 0, 0}, []byte{7, 3, 9, 0}, []byte{0, 0, 0, 0})
	out := append(append(bytes.Clone(b[:20]), o...), b[20:]...)
	out[0] = 0x40 | byte(len(out[:20])+len(o))/4
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	return out
}

// mend4 makes a header checksum right.
func mend4(b []byte) {
	n := min(len(b), int(b[0]&15)*4)
	if n >= 20 {
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^testutil.Sum(b[:n]))
	}
}

// breakIPv4 makes a packet one that no router may take.
func (m maker) breakIPv4(p *probe) {
	b := p.packet()
	switch m.IntN(7) {
	case 0:
		b[10+m.IntN(2)] ^= 1 << m.IntN(8)
	case 1:
		b[2], b[3] = byte(m.IntN(6)), byte(m.Uint32())
		mend4(b)
	case 2:
		b[0] = byte(m.Uint32())
		mend4(b)
	case 3:
		p.frame = p.frame[:14+m.IntN(len(b)+1)]
	case 4:
		b[m.IntN(12)] = byte(m.Uint32())
		mend4(b)
	case 5:
		b[m.IntN(20)] ^= 1 << m.IntN(8)
	case 6:
		b[12+m.IntN(8)] = byte(m.Uint32())
		mend4(b)
	}
}

// six makes an IPv6 probe.
func (m maker) six(p *probe) {
	src, dst, ttl := source6(p.side, p.id), m.address(plain6), byte(64)
	if p.side != lanSide {
		dst = m.address(back6)
	}
	if m.one(6) {
		ttl = pick[byte](m, 0, 1, 1, 2, 255)
	}
	if m.one(6) {
		dst = m.address(pick(m, special6, special6, martian6, m.own6, back6))
	}
	if m.one(12) {
		src = m.address(pick(m, martian6, otherwise, own6))
	}
	size := m.IntN(64)
	switch m.IntN(8) {
	case 0:
		size = m.IntN(1372)
	case 1:
		size = 1300 - 68 + m.IntN(40)
	}
	proto := pick[byte](m, 17, 17, 17, 6, 6, 58, 58, 50, 59, 132, 253)
	first, chain := proto, []byte(nil)
	if m.one(4) {
		first, chain = m.chain(proto)
	}
	p.ipv6Of(src, dst, ttl, first, chain, proto, size+16)
	b := p.packet()
	l4 := b[40+len(chain):]
	if proto == 58 && m.one(2) {
		l4[0], l4[1] = pick[byte](m, 1, 2, 3, 4, 99, 127, 128, 129, 132, 133, 134, 135, 136, 137, 138, 200), byte(m.IntN(3))
		p.finish(l4, 2, 58, b[8:40])
	}
	if m.one(3) {
		b[0], b[1], b[2], b[3] = 0x60|byte(m.IntN(16)), byte(m.Uint32()), byte(m.Uint32()), byte(m.Uint32())
	}
	if m.one(24) {
		m.spoil(l4, proto, b[8:40])
	}
	if m.one(16) {
		m.breakIPv6(p)
	}
}

// chain returns extension headers before one of type proto.
func (m maker) chain(proto byte) (first byte, chain []byte) {
	n := 1 + m.IntN(3)
	if m.one(12) {
		n = 7 + m.IntN(4)
	}
	for first = proto; n > 0; n-- {
		kind := pick[byte](m, 0, 43, 44, 51, 60, 60, 135, 139)
		if kind == 0 && n > 1 {
			kind = 60
		}
		h := []byte{first, 0, 1, 4, 0, 0, 0, 0}
		switch kind {
		case 0, 60:
			h = append([]byte{first, 0}, pick(m, []byte{1, 4, 0, 0, 0, 0}, []byte{5, 2, 0, 0, 1, 0}, []byte{0x1e, 4, 1, 2, 3, 4}, []byte{0x5e, 4, 1, 2, 3, 4},
				[]byte{0x9e, 4, 1, 2, 3, 4}, []byte{0xde, 4, 1, 2, 3, 4}, []byte{0, 0, 0, 0, 0, 0}, []byte{1, 4, 9, 9, 9, 9}, []byte{0x1e, 40, 1, 2, 3, 4})...)
		case 43:
			h[2], h[3] = pick[byte](m, 0, 0, 2, 3, 4, 253), byte(m.IntN(3))
		case 44:
			binary.BigEndian.PutUint16(h[2:], pick[uint16](m, 0, 1, 8, 9, 0x40, 0xfff8, 6))
			binary.BigEndian.PutUint32(h[4:], m.Uint32())
		case 51:
			h = append(h, 0, 0, 0, 1)
			h[1] = 1
		}
		if m.one(24) && kind != 44 { // broken
			h[1] = byte(m.Uint32())
		}
		first, chain = kind, append(h, chain...)
	}
	return first, chain
}

// breakIPv6 makes a packet one that no router may take.
func (m maker) breakIPv6(p *probe) {
	b := p.packet()
	switch m.IntN(6) {
	case 0:
		b[4], b[5] = byte(m.IntN(6)), byte(m.Uint32())
	case 1:
		b[4], b[5] = 0, byte(m.IntN(2)*m.IntN(50))
	case 2:
		b[0] = byte(m.Uint32())
	case 3:
		p.frame = p.frame[:14+m.IntN(len(b)+1)]
	case 4:
		b[6] = byte(m.Uint32())
	case 5:
		b[8+m.IntN(32)] = byte(m.Uint32())
	}
}

// onLink changes what is around the packet.
func (m maker) onLink(p *probe) {
	switch m.IntN(6) {
	case 0, 1:
		p.frame = append(p.frame, bytes.Repeat([]byte{0xee}, 1+m.IntN(40))...)
	case 2:
		copy(p.frame, pick(m, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{1, 0, 0x5e, 0, 0, 5}, []byte{0x33, 0x33, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 9, 9}))
	case 3:
		binary.BigEndian.PutUint16(p.frame[12:], pick[uint16](m, 0x0800, 0x86dd, 0x8847, 0x88cc, 46, 0x8100, 0x88a8))
	case 4: // a VLAN tag
		tag := []byte{0x81, 0, 0, byte(m.IntN(3))}
		p.frame = append(append(bytes.Clone(p.frame[:12]), tag...), p.frame[12:]...)
	case 5:
		copy(p.frame[6:], []byte{2, 0, 0, 0, 9, byte(m.IntN(4))}) // another host of the side
	}
}

// waits reports whether a packet would wait for a neighbour, which takes seconds, or is
// for a neighbour that there is not.
func waits(frame []byte) bool {
	b := frame[14:]
	var dst, src netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case len(b) >= 40 && b[0]>>4 == 6:
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return false
	}
	return stranger(src) || stranger(dst)
}

// stranger reports whether an address is on a side's link, and nobody's.
func stranger(a netip.Addr) bool {
	for i := range sides {
		if a.Is4() && netip.PrefixFrom(side4(i, 0), 24).Contains(a) {
			last := a.As4()[3]
			return last == 0 || last > 9 && last != 255
		}
		if a.Is6() && netip.PrefixFrom(side6(i, 0), 64).Contains(a) {
			return a.Compare(side6(i, 9)) > 0
		}
	}
	return false
}
