package rtnl

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Route is a route (RTM_NEWROUTE, RTM_DELROUTE).
type Route struct {
	Family    uint8
	Type      uint8 // unix.RTN_...
	Protocol  uint8 // unix.RTPROT_...
	Scope     uint8
	TOS       uint8
	Flags     uint32 // unix.RTM_F_...
	Table     uint32
	Dst       netip.Prefix
	HasSrc    bool // IPv6 route with a source prefix
	Metric    uint32
	PrefSrc   netip.Addr
	MTU       uint32        // in bytes, locked or not; 0: the MTU of the link applies
	Metrics   uint32        // CRC-32 of RTA_METRICS, by which Linux distinguishes IPv4 routes; 0: none
	Pref      int8          // IPv6 route preference (RTA_PREF, RFC 4191): -1 low, 0 medium, 1 high
	Lifetime  time.Duration // remaining lifetime of an IPv6 route; negative: expired; 0: unlimited
	NexthopID uint32        // next-hop object of the route, 0 for none; Paths are copied from it
	Paths     []Path        // reused by the next Parse
	Multipath bool          // the message has RTA_MULTIPATH
}

// Path is one path of a route: a gateway or a directly connected link (struct rtnexthop).
type Path struct {
	Gateway netip.Addr // invalid for on-link destinations; IPv4 routes can have an IPv6 gateway
	Index   int        // interface index
	Weight  uint16     // at least 1
	Encap   bool       // packets need encapsulation (MPLS, SRv6, tunnels)
	Dead    bool       // unused by Linux until its link is up
}

const rtaNHID = 30 // RTA_NH_ID, missing in x/sys

// Parse parses the data of a route message.
func (r *Route) Parse(data []byte) error {
	*r = Route{Paths: r.Paths[:0]}
	h, a := Header(data, unix.SizeofRtMsg)
	if h == nil {
		return wrap("route message", a.Err)
	}
	r.Family = h[0]
	bits, srcLen := int(h[1]), h[2]
	r.TOS = h[3]
	r.Table = uint32(h[4])
	r.Protocol = h[5]
	r.Scope = h[6]
	r.Type = h[7]
	r.Flags = binary.NativeEndian.Uint32(h[8:])
	r.HasSrc = srcLen != 0

	dst := netip.IPv4Unspecified()
	switch r.Family {
	case unix.AF_INET:
	case unix.AF_INET6:
		dst = netip.IPv6Unspecified()
	default:
		return nil // MPLS, multicast routing: the caller checks Family
	}
	single := Path{Weight: 1, Dead: r.Flags&unix.RTNH_F_DEAD != 0}
	for a.Next() {
		switch a.Kind {
		case unix.RTA_DST:
			dst = a.addr()
		case unix.RTA_TABLE:
			r.Table = a.Uint32()
		case unix.RTA_PRIORITY:
			r.Metric = a.Uint32()
		case unix.RTA_PREFSRC:
			r.PrefSrc = a.addr()
		case unix.RTA_METRICS:
			r.parseMetrics(&a)
		case unix.RTA_PREF:
			r.Pref = prefOf(a.Value)
		case unix.RTA_CACHEINFO:
			r.parseLifetime(&a)
		case rtaNHID:
			r.NexthopID = a.Uint32()
		case unix.RTA_MULTIPATH:
			r.Multipath = true
			r.parsePaths(&a)
		default:
			single.parse(&a)
		}
	}
	if !r.Multipath && (single.Index != 0 || single.Gateway.IsValid()) {
		r.Paths = append(r.Paths, single)
	}
	r.Dst = netip.PrefixFrom(dst, bits).Masked()
	if a.Err == nil && (!r.Dst.IsValid() || dst.Is4() != (r.Family == unix.AF_INET)) {
		a.Err = fmt.Errorf("destination %v with a prefix length of %d in family %d", dst, bits, r.Family)
	}
	return wrap("route message", a.Err)
}

// parse parses an attribute of a path, in a route or in RTA_MULTIPATH.
func (p *Path) parse(a *Attrs) {
	switch a.Kind {
	case unix.RTA_OIF:
		p.Index = int(int32(a.Uint32()))
	case unix.RTA_GATEWAY:
		p.Gateway = a.addr()
	case unix.RTA_VIA:
		p.Gateway = a.via()
	case unix.RTA_ENCAP:
		p.Encap = true
	}
}

// parseMetrics parses RTA_METRICS, nested attributes.
func (r *Route) parseMetrics(list *Attrs) {
	r.Metrics = crc32.ChecksumIEEE(list.Value)
	a := Attrs{rest: list.Value}
	for a.Next() {
		if a.Kind == unix.RTAX_MTU {
			r.MTU = a.Uint32()
		}
	}
	if a.Err != nil {
		list.Err = a.Err
	}
}

// prefOf returns an RFC 4191 preference, a signed number of 2 bits.
func prefOf(value []byte) int8 {
	if len(value) == 0 {
		return 0
	}
	return int8(value[0]<<6) >> 6
}

// parseLifetime parses rta_expires of struct rta_cacheinfo: the remaining lifetime in units of
// 10 ms, 0 for unlimited.
func (r *Route) parseLifetime(a *Attrs) {
	const expires, tick = 8, 10 * time.Millisecond
	if len(a.Value) < expires+4 {
		a.bad("12 at least")
		return
	}
	r.Lifetime = time.Duration(int32(binary.NativeEndian.Uint32(a.Value[expires:]))) * tick
}

// parsePaths parses RTA_MULTIPATH: structs rtnexthop with nested attributes.
func (r *Route) parsePaths(list *Attrs) {
	for b := list.Value; len(b) >= unix.SizeofRtNexthop; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			list.Err = fmt.Errorf("next hop of %d bytes where %d are left: %w", n, len(b), ErrTruncated)
			return
		}
		path := Path{
			Dead:   b[2]&unix.RTNH_F_DEAD != 0,
			Weight: uint16(b[3]) + 1,
			Index:  int(int32(binary.NativeEndian.Uint32(b[4:]))),
		}
		a := Attrs{rest: b[unix.SizeofRtNexthop:n]}
		for a.Next() {
			path.parse(&a)
		}
		if a.Err != nil {
			list.Err = a.Err
			return
		}
		r.Paths = append(r.Paths, path)
		b = b[min(align(n), len(b)):]
	}
}
