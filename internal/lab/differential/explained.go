package differential

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Difference is an intended difference from Linux, or a fault of Linux.
type Difference struct {
	Name string
	Rule string // of CONFORMANCE.md, which says why
	// Punted marks packets that are punted to Linux: there is no difference if Linux may forward.
	Punted bool
	// Rare marks a difference that not every run shows.
	Rare bool
	is   func(c *contrast) bool
	// adjust returns Linux's frames without the difference, to which others may be added. Nil: is decides.
	adjust func(c *contrast) emissions
}

// Differences returns all known differences on plain ports. The first match explains a packet.
func Differences() []Difference { return differences }

var differences = []Difference{
	{Name: "packets with IPv4 options are punted to Linux, whose forwarding is off", Rule: "ipv4/options", Punted: true, is: func(c *contrast) bool {
		return c.silent() && c.v4() && c.packet()[0]&15 > 5
	}},
	{Name: "priority-tagged frames are punted to Linux, whose forwarding is off", Rule: "link/vlan", Punted: true, is: func(c *contrast) bool {
		return c.silent() && c.priority
	}},
	{Name: "neighbor discovery is punted to Linux and not forwarded", Rule: "host/neighbour-discovery", Punted: true, is: func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v6() && b[6] == 58 && len(b) > 40 && b[40] >= 133 && b[40] <= 137
	}},
	{Name: "packets from and to link-local addresses are dropped without an error", Rule: "addresses/beyond-scope6", Punted: true, is: func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{Name: "packets from the router's own addresses are punted to Linux, whose forwarding is off", Rule: "addresses/own-source", Punted: true, is: func(c *contrast) bool {
		return c.silent() && (c.v4() || c.v6()) && own(c.src())
	}},
	{Name: "169.254/16 is dropped", Rule: "addresses/link-local4", is: func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(netip.Addr.IsLinkLocalUnicast)
	}},
	{Name: "0/8 is dropped", Rule: "addresses/source4", is: func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] == 0 })
	}},
	{Name: "240/4 is dropped", Rule: "addresses/source4", is: func(c *contrast) bool {
		return c.silent() && c.v4() && c.any(func(a netip.Addr) bool { return a.As4()[0] >= 240 })
	}},
	{Name: "IPv4-mapped and unspecified addresses are dropped", Rule: "addresses/mapped6", is: func(c *contrast) bool {
		return c.silent() && c.v6() && c.any(func(a netip.Addr) bool { return a.Is4In6() || a.IsUnspecified() })
	}},
	{Name: "type 0 routing headers are dropped", Rule: "ipv6/routing-header-0", is: func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().routing0
	}},
	{Name: "broken and overlong chains of extension headers are dropped", Rule: "ipv6/chain-length", is: func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().broken
	}},
	{Name: "TCP fragments at offset 1 are dropped", Rule: "ipv4/tiny-fragment", is: func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && b[9] == 6 && binary.BigEndian.Uint16(b[6:])&0x1fff == 1
	}},
	{Name: "hop-by-hop options are ignored; Linux processes them", Rule: "ipv6/hop-by-hop", is: func(c *contrast) bool {
		return c.v6() && c.packet()[6] == 0 && c.plain() && (len(c.linux) == 0 || c.linux.are("ICMPv6 4/2", "ICMPv6 4/0"))
	}},
	{Name: "the TTL check precedes the route lookup", Rule: "ipv4/ttl-before-route", is: func(c *contrast) bool {
		return c.hops() <= 1 && c.ours.are("ICMP 11/0", "ICMPv6 3/0") &&
			(len(c.linux) == 0 || c.linux.are("ICMP 3/0", "ICMP 3/1", "ICMP 3/13", "ICMPv6 1/0", "ICMPv6 1/1"))
	}},
	{Name: "an unreachable route is reported as address unreachable; Linux reports no route", Rule: "route/unreachable", is: func(c *contrast) bool {
		return c.v6() && c.ours.are("ICMPv6 1/3") && c.linux.are("ICMPv6 1/0")
	}},
	{Name: "errors have no ECN bits; Linux leaves one", Rule: "icmp/type-of-service", is: func(c *contrast) bool {
		return c.v4() && c.packet()[1]&2 != 0 && slices.Equal(c.linux.without(clearECN), c.ours)
	}},
	{Name: "unfinished L4 checksums are completed", Rule: "link/unfinished-checksums", is: func(c *contrast) bool {
		return c.unfinished() && slices.Equal(c.linux.without(c.checksum), c.ours.without(c.checksum))
	}},
	{Name: "IPv6 packets that leave by their ingress port cause no redirect", Rule: "icmp/redirect", Rare: true, adjust: func(c *contrast) emissions {
		return slices.DeleteFunc(slices.Clone(c.linux), func(o emitted) bool { return kind(o) == "ICMPv6 137/0" })
	}},
	{Name: "no error is sent about a redirect behind extension headers", Rule: "icmp/about-errors", is: func(c *contrast) bool {
		return c.silent() && c.v6() && c.chain().proto == 58 && len(c.chain().l4) > 0 && c.chain().l4[0] == 137
	}},
	{Name: "errors have the address of the ingress port; Linux uses the egress port", Rule: "icmp/source", is: func(c *contrast) bool {
		return c.v4() && len(c.ours) == 1 && c.ours[0].side != c.side && slices.Equal(c.linux.without(errorSource), c.ours.without(errorSource))
	}},
	{Name: "fragments beyond the longest packet are not fragmented; Linux's offsets wrap", Rule: "size/beyond-longest", is: func(c *contrast) bool {
		b := c.packet()
		return c.silent() && c.v4() && int(binary.BigEndian.Uint16(b[6:])&0x1fff)*8+int(binary.BigEndian.Uint16(b[2:])) > 65535 && len(c.linux) > 1
	}},
	{Name: "fragments keep the reserved flag; Linux clears it", Rule: "ipv4/unused-bits", is: func(c *contrast) bool {
		return c.v4() && c.packet()[6]&0x80 != 0 && slices.Equal(c.linux, c.ours.without(clearReserved))
	}},
	{Name: "errors by a route's MTU quote the received packet; Linux quotes a decremented hop limit", Rule: "size/route-mtu", is: func(c *contrast) bool {
		return c.v6() && c.dst().As16()[1] == 0x26 && c.ours.are("ICMPv6 2/0") && slices.Equal(c.linux.without(quotedHops), c.ours.without(quotedHops))
	}},
	{Name: "router discovery and extended echo are queries", Rule: "icmp/about-errors", is: func(c *contrast) bool {
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
