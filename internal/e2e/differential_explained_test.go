package e2e

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// difference is an intended difference from Linux, or a fault of Linux.
type difference struct {
	name string
	rule string // of CONFORMANCE.md, which says why
	// linuxs marks packets that are punted to Linux: there is no difference if Linux may forward.
	linuxs bool
	is     func(c *contrast) bool
}

// differences are all known differences. The first match explains a packet.
var differences = []difference{
	{"packets with IPv4 options are punted to Linux, whose forwarding is off", "ipv4/options", true, func(c *contrast) bool {
		return c.silent() && c.v4() && c.packet()[0]&15 > 5
	}},
	{"priority-tagged frames are punted to Linux, whose forwarding is off", "link/vlan", true, func(c *contrast) bool {
		return c.silent() && binary.BigEndian.Uint16(c.frame[12:]) == 0x8100 && binary.BigEndian.Uint16(c.frame[14:])&0xfff == 0
	}},
	{"neighbor discovery is punted to Linux and not forwarded", "host/neighbour-discovery", true, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v6() && b[6] == 58 && len(b) > 40 && b[40] >= 133 && b[40] <= 137
	}},
	{"packets from and to link-local addresses are dropped without an error", "addresses/beyond-scope6", true, func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{"packets from the router's own addresses are punted to Linux, whose forwarding is off", "addresses/own-source", true, func(c *contrast) bool {
		return c.silent() && (c.v4() || c.v6()) && own(c.src())
	}},
	{"169.254/16 is dropped", "addresses/link-local4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{"0/8 is dropped", "addresses/source4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] == 0 })
	}},
	{"240/4 is dropped", "addresses/source4", false, func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] >= 240 })
	}},
	{"IPv4-mapped and unspecified addresses are dropped", "addresses/mapped6", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(func(a netip.Addr) bool { return a.Is4In6() || a.IsUnspecified() })
	}},
	{"type 0 routing headers are dropped", "ipv6/routing-header-0", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().routing0
	}},
	{"broken and overlong chains of extension headers are dropped", "ipv6/chain-length", false, func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().broken
	}},
	{"TCP fragments at offset 1 are dropped", "ipv4/tiny-fragment", false, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && b[9] == 6 && binary.BigEndian.Uint16(b[6:])&0x1fff == 1
	}},
	{"hop-by-hop options are ignored; Linux processes them", "ipv6/hop-by-hop", false, func(c *contrast) bool {
		return c.v6() && c.packet()[6] == 0 && c.plain() && (len(c.linux) == 0 || c.linux.are("ICMPv6 4/2", "ICMPv6 4/0"))
	}},
	{"the TTL check precedes the route lookup", "ipv4/ttl-before-route", false, func(c *contrast) bool {
		return c.hops() <= 1 && c.ours.are("ICMP 11/0", "ICMPv6 3/0") &&
			(len(c.linux) == 0 || c.linux.are("ICMP 3/0", "ICMP 3/1", "ICMP 3/13", "ICMPv6 1/0", "ICMPv6 1/1"))
	}},
	{"an unreachable route is reported as address unreachable; Linux reports no route", "route/unreachable", false, func(c *contrast) bool {
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
	{"errors have the address of the ingress port; Linux uses the egress port", "icmp/source", false, func(c *contrast) bool {
		return c.v4() && len(c.ours) == 1 && c.ours[0].side != c.side && slices.Equal(c.linux.without(errorSource), c.ours.without(errorSource))
	}},
	{"fragments beyond the longest packet are not fragmented; Linux's offsets wrap", "size/beyond-longest", false, func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && int(binary.BigEndian.Uint16(b[6:])&0x1fff)*8+int(binary.BigEndian.Uint16(b[2:])) > 65535 && len(c.linux) > 1
	}},
	{"fragments keep the reserved flag; Linux clears it", "ipv4/unused-bits", false, func(c *contrast) bool {
		return c.v4() && c.packet()[6]&0x80 != 0 && slices.Equal(c.linux, c.ours.without(clearReserved))
	}},
	{"errors by a route's MTU quote the received packet; Linux quotes a decremented hop limit", "size/route-mtu", false, func(c *contrast) bool {
		return c.v6() && c.dst().As16()[1] == 0x26 && c.ours.are("ICMPv6 2/0") && slices.Equal(c.linux.without(quotedHops), c.ours.without(quotedHops))
	}},
	{"router discovery and extended echo are queries", "icmp/about-errors", false, func(c *contrast) bool {
		b := c.packet()
		return c.v4() && b[9] == 1 && len(b) > 20 && slices.Contains([]byte{9, 10, 42, 43}, b[20]) && len(c.linux) == 0 && len(c.ours) == 1
	}},
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
