package e2e

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/testutil"
)

// difference is one from Linux that is meant, or Linux's own.
type difference struct {
	name string
	rule string // of CONFORMANCE.md, which says why
	// linuxs says that the packets are Linux's, and that the difference goes where Linux may
	// forward.
	linuxs bool
	is     func(c *contrast) bool
}

// differences are all there are. The first that fits a packet explains it.
var differences = []difference{
	{"IPv4 options are Linux's, which forwards nothing here", "ipv4/options", true, func(c *contrast) bool {
		return c.silent() && c.v4() && c.packet()[0]&15 > 5
	}},
	{"priority-tagged frames are Linux's, which forwards nothing here", "link/vlan", true, func(c *contrast) bool {
		return c.silent() && binary.BigEndian.Uint16(c.frame[12:]) == 0x8100 && binary.BigEndian.Uint16(c.frame[14:])&0xfff == 0
	}},
	{"neighbour discovery is for the link: it is Linux's, and goes no further", "host/neighbour-discovery", true, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v6() && b[6] == 58 && len(b) > 40 && b[40] >= 133 && b[40] <= 137
	}},
	{"packets from and to link-local addresses go no further, without an error", "addresses/beyond-scope6", true, func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{"packets from the router's own addresses are Linux's, which forwards nothing here", "addresses/own-source", true, func(c *contrast) bool {
		return c.silent() && (c.v4() || c.v6()) && own(c.src())
	}},
	{"169.254/16 goes no further", "addresses/link-local4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{"0/8 goes no further", "addresses/source4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] == 0 })
	}},
	{"240/4 goes no further", "addresses/source4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] >= 240 })
	}},
	{"IPv4-mapped and unspecified addresses go no further", "addresses/mapped6", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(func(a netip.Addr) bool { return a.Is4In6() || a.IsUnspecified() })
	}},
	{"type 0 routing headers go no further", "ipv6/routing-header-0", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().routing0
	}},
	{"broken and overlong chains of extension headers go no further", "ipv6/chain-length", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().broken
	}},
	{"TCP fragments at offset 1 go no further", "ipv4/tiny-fragment", false, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && b[9] == 6 && binary.BigEndian.Uint16(b[6:])&0x1fff == 1
	}},
	{"hop-by-hop options are ignored; Linux works on them", "ipv6/hop-by-hop", false, func(c *contrast) bool {
		return c.v6() && c.packet()[6] == 0 && c.plain() && (len(c.linux) == 0 || c.linux.are("ICMPv6 4/2", "ICMPv6 4/0"))
	}},
	{"the TTL is looked at before the route", "ipv4/ttl-before-route", false, func(c *contrast) bool {
		return c.hops() <= 1 && c.ours.are("ICMP 11/0", "ICMPv6 3/0") &&
			(len(c.linux) == 0 || c.linux.are("ICMP 3/0", "ICMP 3/1", "ICMP 3/13", "ICMPv6 1/0", "ICMPv6 1/1"))
	}},
	{"an unreachable route is told as address unreachable; Linux says no route", "route/unreachable", false, func(c *contrast) bool {
		return c.v6() && c.ours.are("ICMPv6 1/3") && c.linux.are("ICMPv6 1/0")
	}},
	{"errors have no ECN bits; Linux leaves one", "icmp/type-of-service", false, func(c *contrast) bool {
		return c.v4() && c.packet()[1]&2 != 0 && slices.Equal(c.linux.without(clearECN), c.ours)
	}},
	{"unfinished L4 checksums are completed", "link/unfinished-checksums", false, func(c *contrast) bool {
		return c.unfinished() && slices.Equal(c.linux.without(c.checksum), c.ours.without(c.checksum))
	}},
	{"no error is sent about a redirect behind extension headers", "icmp/about-errors", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().proto == 58 && len(c.chain().l4) > 0 && c.chain().l4[0] == 137
	}},
	{"errors come from the port that received the packet; Linux's from the one by which they leave", "icmp/source", false, func(c *contrast) bool {
		return c.v4() && len(c.ours) == 1 && c.ours[0].side != c.side && slices.Equal(c.linux.without(errorSource), c.ours.without(errorSource))
	}},
	{"fragments that end beyond the longest packet are not cut; Linux's offsets wrap", "size/beyond-longest", false, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && int(binary.BigEndian.Uint16(b[6:])&0x1fff)*8+int(binary.BigEndian.Uint16(b[2:])) > 65535 && len(c.linux) > 1
	}},
	{"pieces keep the reserved flag; Linux clears it", "ipv4/unused-bits", false, func(c *contrast) bool {
		return c.v4() && c.packet()[6]&0x80 != 0 && slices.Equal(c.linux, c.ours.without(clearReserved))
	}},
	{"what is too big for a route's MTU is quoted as it came; Linux, which looks at that last, quotes a hop less", "size/route-mtu", false, func(c *contrast) bool {
		return c.v6() && c.dst().As16()[1] == 0x26 && c.ours.are("ICMPv6 2/0") && slices.Equal(c.linux.without(quotedHops), c.ours.without(quotedHops))
	}},
	{"router discovery and extended echo are queries", "icmp/about-errors", false, func(c *contrast) bool {
		b := c.packet()
		return c.v4() && b[9] == 1 && len(b) > 20 && slices.Contains([]byte{9, 10, 42, 43}, b[20]) && len(c.linux) == 0 && len(c.ours) == 1
	}},
}

// emissions are frames that left a router.
type emissions []emitted

// are reports whether there is one frame, of one of these kinds.
func (e emissions) are(names ...string) bool {
	if len(e) != 1 {
		return false
	}
	for _, n := range names {
		if kind(e[0]) == n {
			return true
		}
	}
	return false
}

// without returns the frames with something taken out of each.
func (e emissions) without(take func(frame []byte)) emissions {
	out := slices.Clone(e)
	for i := range out {
		f := []byte(out[i].bytes)
		take(f)
		out[i].bytes = string(f)
	}
	return out
}

// clearECN takes the ECN bits out of an ICMP error.
func clearECN(f []byte) {
	if f[14] == 0x45 && f[23] == 1 {
		f[15] &^= 3
	}
}

// errorSource takes the source out of an ICMP error, and the ECN bits.
func errorSource(f []byte) {
	if f[14] == 0x45 && f[23] == 1 {
		copy(f[26:], []byte{0, 0, 0, 0})
		clearECN(f)
	}
}

// quotedHops takes the hop limit of the quoted packet out of an ICMPv6 error, and its checksum.
func quotedHops(f []byte) {
	if len(f) >= 14+40+8+40 {
		f[14+40+2], f[14+40+3], f[14+40+8+7] = 0, 0, 0
	}
}

// clearReserved takes the reserved flag out of an IPv4 packet.
func clearReserved(f []byte) {
	f[20] &^= 0x80
	mend4(f[14:])
}

// silent reports whether warproute did nothing. (A piece of another packet, which has that
// number by its source, may be among what both did.)
func (c *contrast) silent() bool { return len(onlyIn(c.ours, c.linux)) == 0 }

// plain reports whether what warproute sent is the packet as any router forwards it, pieces
// of it, or ICMP errors.
func (c *contrast) plain() bool {
	for _, o := range c.ours {
		if len(c.ours) > 1 || strings.HasPrefix(kind(o), "ICMP") {
			continue
		}
		b := slices.Clone(c.packet())
		if c.v4() {
			b = b[:binary.BigEndian.Uint16(b[2:])]
			b[8]--
			mend4(b)
		} else {
			b = b[:40+int(binary.BigEndian.Uint16(b[4:]))]
			b[7]--
		}
		f := append(append(slices.Clone(hostMAC(o.side)), routerMAC(o.side)...), c.frame[12:14]...)
		if o.bytes != normal(append(f, b...)) && !c.unfinished() {
			return false
		}
	}
	return true
}

// v4 and v6 report whether the packet has a whole header of the family.
func (c *contrast) v4() bool {
	return binary.BigEndian.Uint16(c.frame[12:]) == 0x0800 && len(c.frame) >= 14+20 && c.packet()[0]>>4 == 4
}
func (c *contrast) v6() bool {
	return binary.BigEndian.Uint16(c.frame[12:]) == 0x86dd && len(c.frame) >= 14+40 && c.packet()[0]>>4 == 6
}

func (c *contrast) src() netip.Addr {
	if b := c.packet(); c.v4() {
		return netip.AddrFrom4([4]byte(b[12:16]))
	}
	return netip.AddrFrom16([16]byte(c.packet()[8:24]))
}

func (c *contrast) dst() netip.Addr {
	if b := c.packet(); c.v4() {
		return netip.AddrFrom4([4]byte(b[16:20]))
	}
	return netip.AddrFrom16([16]byte(c.packet()[24:40]))
}

// any reports whether a source or destination is something.
func (c *contrast) any(is func(netip.Addr) bool) bool { return is(c.src()) || is(c.dst()) }

// hops is the TTL or hop limit.
func (c *contrast) hops() byte {
	switch {
	case c.v4():
		return c.packet()[8]
	case c.v6():
		return c.packet()[7]
	}
	return 255
}

// own reports whether an address is the router's, or the broadcast address of a side.
func own(a netip.Addr) bool {
	for i := range sides {
		if a == side4(i, 1) || a == side6(i, 1) || a == side4(i, 255) {
			return true
		}
	}
	return false
}

// extensions is what there is to say of a chain of extension headers.
type extensions struct {
	routing0, broken bool
	proto            byte
	l4               []byte
	at               int // of l4, from the packet's beginning
}

// chain follows the extension headers of an IPv6 packet.
func (c *contrast) chain() (h extensions) {
	b := c.packet()
	size := min(40+int(binary.BigEndian.Uint16(b[4:])), len(b))
	next, rest := b[6], b[40:size]
	for n := 0; ; n++ {
		length := 0
		switch {
		case !slices.Contains([]byte{0, 43, 44, 51, 60}, next):
			h.proto, h.l4, h.at = next, rest, size-len(rest)
			return h
		case len(rest) < 8 || n == 8:
			h.broken = true
			return h
		case next == 44:
			length = 8
			if binary.BigEndian.Uint16(rest[2:])&0xfff8 != 0 {
				return h
			}
		case next == 51:
			length = (int(rest[1]) + 2) * 4
		default:
			length = (int(rest[1]) + 1) * 8
		}
		h.routing0 = h.routing0 || next == 43 && rest[2] == 0 && rest[3] != 0
		if length > len(rest) {
			h.broken = true
			return h
		}
		next, rest = rest[0], rest[length:]
	}
}

// segment returns the protocol and the bytes of what is behind the IP headers, and where its
// checksum is in the frame, 0 if it has none.
func (c *contrast) segment() (proto byte, l4 []byte, at int) {
	switch b := c.packet(); {
	case c.v4():
		if end := int(binary.BigEndian.Uint16(b[2:])); end >= 20 && end <= len(b) {
			proto, l4, at = b[9], b[20:end], 14+20
		}
	case c.v6():
		h := c.chain()
		proto, l4, at = h.proto, h.l4, 14+h.at
	}
	field := map[byte]int{6: 16, 17: 6}[proto]
	if field == 0 || len(l4) < field+2 {
		return proto, l4, 0
	}
	return proto, l4, at + field
}

// unfinished reports whether the bare sum of the pseudo-header is where the L4 checksum
// should be.
func (c *contrast) unfinished() bool {
	proto, l4, at := c.segment()
	if at == 0 {
		return false
	}
	addrs := c.packet()[12:20]
	if c.v6() {
		addrs = c.packet()[8:40]
	}
	pseudo := append(slices.Clone(addrs), 0, proto, byte(len(l4)>>8), byte(len(l4)))
	return binary.BigEndian.Uint16(c.frame[at:]) == testutil.Sum(pseudo)
}

// checksum takes the L4 checksum out of the packet as it was forwarded.
func (c *contrast) checksum(f []byte) {
	if _, _, at := c.segment(); at > 0 && at+2 <= len(f) {
		f[at], f[at+1] = 0, 0
	}
}
