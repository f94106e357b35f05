package differential

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/testutil"
)

// emissions are frames from a router.
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

// without returns the frames with a field of each removed.
func (e emissions) without(take func(frame []byte)) emissions {
	out := slices.Clone(e)
	for i := range out {
		f := []byte(out[i].bytes)
		take(f)
		out[i].bytes = string(f)
	}
	return out
}

// clearECN removes the ECN bits of an ICMP error.
func clearECN(f []byte) {
	if f[14] == 0x45 && f[23] == 1 {
		f[15] &^= 3
	}
}

// errorSource removes the source and the ECN bits of an ICMP error.
func errorSource(f []byte) {
	if f[14] == 0x45 && f[23] == 1 {
		copy(f[26:], []byte{0, 0, 0, 0})
		clearECN(f)
	}
}

// quotedHops removes the quoted hop limit and the checksum of an ICMPv6 error.
func quotedHops(f []byte) {
	if len(f) >= 14+40+8+40 {
		f[14+40+2], f[14+40+3], f[14+40+8+7] = 0, 0, 0
	}
}

// clearReserved removes the reserved flag of an IPv4 packet.
func clearReserved(f []byte) {
	f[20] &^= 0x80
	fix4(f[14:])
}

// silent reports whether only Linux sent frames. (Both may have sent a fragment of another packet that
// is attributed to this one by its source.)
func (c *contrast) silent() bool { return len(onlyIn(c.ours, c.linux)) == 0 }

// plain reports whether warproute sent the forwarded packet, fragments of it, or ICMP errors.
func (c *contrast) plain() bool {
	for _, o := range c.ours {
		if len(c.ours) > 1 || strings.HasPrefix(kind(o), "ICMP") {
			continue
		}
		b := slices.Clone(c.packet())
		if c.v4() {
			b = b[:binary.BigEndian.Uint16(b[2:])]
			b[8]--
			fix4(b)
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

// any reports whether the source or the destination satisfies a condition.
func (c *contrast) any(is func(netip.Addr) bool) bool { return is(c.src()) || is(c.dst()) }

// hops returns the TTL or hop limit.
func (c *contrast) hops() byte {
	switch {
	case c.v4():
		return c.packet()[8]
	case c.v6():
		return c.packet()[7]
	}
	return 255
}

// own reports whether an address is the router's or the broadcast address of a side.
func own(a netip.Addr) bool {
	for i := range sides {
		if a == side4(i, 1) || a == side6(i, 1) || a == side4(i, 255) {
			return true
		}
	}
	return false
}

// extensions describes a chain of extension headers.
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

// segment returns the protocol and the bytes behind the IP headers, and the offset of the checksum in
// the frame, or 0.
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

// unfinished reports whether the L4 checksum is only the sum of the pseudo-header.
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

// checksum removes the L4 checksum of the forwarded packet.
func (c *contrast) checksum(f []byte) {
	if _, _, at := c.segment(); at > 0 && at+2 <= len(f) {
		f[at], f[at+1] = 0, 0
	}
}

// quotedChecksum removes the checksum of an ICMP error, and the L4 checksum of the packet that it quotes.
func (c *contrast) quotedChecksum(f []byte) {
	icmp := 14 + 20
	if c.v6() {
		icmp = 14 + 40
	}
	_, _, at := c.segment()
	for _, field := range []int{icmp + 2, icmp + 8 + at - 14} {
		if field+2 <= len(f) {
			f[field], f[field+1] = 0, 0
		}
	}
}

// errorSource6 removes the source address and the checksum of an ICMPv6 error.
func errorSource6(f []byte) {
	clear(f[14+8 : 14+24])
	clear(f[14+40+2 : 14+40+4])
}
