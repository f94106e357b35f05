package policy

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// packet is a flow as the oracle takes it. Ports are -1 where there are none, and hidden
// where they do not show.
type packet struct {
	src, dst     netip.Addr
	protocol     uint8
	sport, dport int
}

// rule is a policy as the oracle takes it: each range has its two ends.
type rule struct {
	src, dst     netip.Prefix
	protocol     uint8
	sport, dport [2]int // {-1, 65535} for any
	action       Action
	target       uint32
}

const hidden = -2

var anyPort = [2]int{-1, 65535}

func ports(r [2]int) PortRange {
	if r == anyPort {
		return PortRange{}
	}
	return Ports(uint16(r[0]), uint16(r[1]))
}

func policies(rules []rule) (ps []Policy) {
	for _, r := range rules {
		ps = append(ps, Policy{Src: r.src, Dst: r.dst, Protocol: r.protocol, SrcPorts: ports(r.sport), DstPorts: ports(r.dport), Action: r.action, Target: r.target})
	}
	return ps
}

// oracle checks one rule after another.
func oracle(rules []rule, p packet) (policy int32, a Action, target uint32) {
	for i, r := range rules {
		protocol := r.protocol == 0 || r.protocol == p.protocol
		ports := r.sport[0] <= p.sport && p.sport <= r.sport[1] && r.dport[0] <= p.dport && p.dport <= r.dport[1]
		if p.sport == hidden {
			protocol = protocol || p.protocol == HiddenProtocol && r.action != Bypass
			ports = r.action != Bypass || r.sport == anyPort && r.dport == anyPort
		}
		if r.src.Contains(p.src) && r.dst.Contains(p.dst) && protocol && ports {
			return int32(i), r.action, r.target
		}
	}
	return -1, Discard, 0
}

func port(n int) uint32 {
	switch n {
	case -1:
		return NoPort
	case hidden:
		return HiddenPort
	}
	return uint32(n)
}

func (t *Table) lookup(p packet) (int32, Verdict) {
	if p.dst.Is4() {
		src, dst := p.src.As4(), p.dst.As4()
		return t.LookupIPv4(binary.BigEndian.Uint32(src[:]), binary.BigEndian.Uint32(dst[:]), p.protocol, port(p.sport), port(p.dport))
	}
	src, dst := p.src.As16(), p.dst.As16()
	return t.LookupIPv6(&src, &dst, p.protocol, port(p.sport), port(p.dport))
}

func flowOf(p packet) Flow {
	if p.dst.Is4() {
		src, dst := p.src.As4(), p.dst.As4()
		return IPv4Flow(binary.BigEndian.Uint32(src[:]), binary.BigEndian.Uint32(dst[:]), p.protocol, port(p.sport), port(p.dport))
	}
	src, dst := p.src.As16(), p.dst.As16()
	return IPv6Flow(&src, &dst, p.protocol, port(p.sport), port(p.dport))
}

// world makes rules, and packets near their edges.
type world struct {
	*rand.Rand
	rules []rule
}

func newWorld(seed uint64) *world { return &world{Rand: rand.New(rand.NewPCG(seed, 11))} }

func (w *world) one(n int) bool { return w.IntN(n) == 0 }

// addr makes an address of so many bits; few differ in all of them.
func (w *world) addr(ipv6 bool) netip.Addr {
	var b [16]byte
	for i := range b {
		switch w.IntN(3) {
		case 0:
			b[i] = byte(w.Uint32())
		case 1:
			b[i] = 1 << w.IntN(8)
		}
	}
	if ipv6 {
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

func (w *world) prefix(ipv6 bool) netip.Prefix {
	a := w.addr(ipv6)
	return netip.PrefixFrom(a, w.IntN(a.BitLen()+1)).Masked()
}

func (w *world) ports() [2]int {
	if w.one(2) {
		return anyPort
	}
	edges := []int{0, 1, 80, 443, 32767, 32768, 65534, 65535, w.IntN(65536)}
	x, y := edges[w.IntN(len(edges))], edges[w.IntN(len(edges))]
	if r := [2]int{min(x, y), max(x, y)}; r != [2]int{0, 65535} {
		return r
	}
	return anyPort // all ports are any
}

func (w *world) protocol() uint8 {
	return []uint8{0, 1, 6, 17, 50, 58, 255}[w.IntN(7)]
}

// add adds a rule for src and dst, with the remaining fields random.
func (w *world) add(src, dst netip.Prefix) {
	r := rule{src, dst, w.protocol(), w.ports(), w.ports(), Action(w.IntN(3)), 0}
	if r.action == Protect {
		r.target = uint32(w.IntN(MaxTarget + 1))
	}
	w.rules = append(w.rules, r)
}

// random adds n rules of both families, of which some repeat or nest in others.
func (w *world) random(n int) *world {
	for range n {
		ipv6 := w.one(2)
		src, dst := w.prefix(ipv6), w.prefix(ipv6)
		if len(w.rules) > 0 && w.one(2) {
			like := w.rules[w.IntN(len(w.rules))]
			if like.src.Addr().Is4() != ipv6 {
				src, dst = w.near(src, like.src), w.near(dst, like.dst)
			}
		}
		w.add(src, dst)
	}
	return w
}

// near is p, or a prefix that covers like or is covered by it.
func (w *world) near(p, like netip.Prefix) netip.Prefix {
	switch w.IntN(3) {
	case 0:
		return like
	case 1:
		return netip.PrefixFrom(w.inside(like), w.IntN(like.Addr().BitLen()+1)).Masked()
	}
	return p
}

// inside is an address of a prefix: often the first or the last, or random.
func (w *world) inside(p netip.Prefix) netip.Addr {
	b, fill, bits := p.Addr().AsSlice(), w.IntN(3), p.Bits()
	for i := range b {
		mask := byte(0xff)
		if i < bits/8 {
			mask = 0
		} else if i == bits/8 {
			mask >>= bits % 8
		}
		switch fill {
		case 0:
			b[i] |= mask
		case 1:
			b[i] |= mask & byte(w.Uint32())
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// edge is an address at or just beyond an edge of a prefix.
func (w *world) edge(p netip.Prefix) netip.Addr {
	a := w.inside(p)
	var b netip.Addr
	switch w.IntN(6) {
	case 0:
		b = a.Next()
	case 1:
		b = a.Prev()
	}
	if b.IsValid() {
		return b
	}
	return a
}

func (w *world) port(r [2]int) int {
	near := []int{r[0], r[1], r[0] - 1, r[1] + 1, w.IntN(65536), -1}
	return min(max(near[w.IntN(len(near))], -1), 65535)
}

// packet makes a packet that a rule matches, or nearly. Source and destination
// may be of two rules.
func (w *world) packet() packet {
	if len(w.rules) == 0 || w.one(20) {
		ipv6 := w.one(2)
		return packet{w.addr(ipv6), w.addr(ipv6), w.protocol(), w.port(anyPort), w.port(anyPort)}
	}
	r := w.rules[w.IntN(len(w.rules))]
	p := packet{w.edge(r.src), w.edge(r.dst), r.protocol, w.port(r.sport), w.port(r.dport)}
	if w.one(3) {
		if o := w.rules[w.IntN(len(w.rules))]; o.src.Addr().Is4() == r.src.Addr().Is4() {
			p.src = w.edge(o.src)
		}
	}
	if p.protocol == 0 || w.one(4) {
		p.protocol = w.protocol()
	}
	if w.one(4) {
		if p.sport, p.dport = hidden, hidden; w.one(4) {
			p.protocol = HiddenProtocol
		}
	}
	return p
}

// nested adds n rules between the prefixes of two addresses.
func (w *world) nested(n int, ipv6 bool) *world {
	src, dst := w.addr(ipv6), w.addr(ipv6)
	for range n {
		w.add(netip.PrefixFrom(src, w.IntN(src.BitLen()+1)).Masked(), netip.PrefixFrom(dst, w.IntN(dst.BitLen()+1)).Masked())
	}
	return w
}

// comb is an IPv6 prefix that leaves a path of zeros at some bit and goes on for a
// few bits only, so that tries are as deep as they can be.
func (w *world) comb(bits int) netip.Prefix {
	var b [16]byte
	at := w.IntN(128)
	b[at/8] |= 0x80 >> (at % 8)
	end := min(at+bits, 128)
	for i := at + 1; i < end; i++ {
		b[i/8] |= byte(w.IntN(2)) * (0x80 >> (i % 8))
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), max(end, at+1)).Masked()
}
