package mirror

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Minimum MTUs in bytes (RFC 791, RFC 8200 section 5). Linux accepts less, and then reports
// sizes that senders ignore.
const (
	minMTUIPv4 = 68
	minMTUIPv6 = 1280
)

// mtuOf returns the MTU of a route, 0 if it has none or does not forward. `mtu lock` only
// concerns path MTU discovery, so it makes no difference for a router.
func mtuOf(r *rtnl.Route) uint16 {
	least := uint32(minMTUIPv4)
	if r.Family == unix.AF_INET6 {
		least = minMTUIPv6
	}
	if r.MTU == 0 || r.Type != unix.RTN_UNICAST && r.NexthopID == 0 { // the object has the type
		return 0
	}
	return uint16(min(max(r.MTU, least), math.MaxUint16))
}

// mtusFollow reports whether a change of a link's MTU could change those of routes without
// an event: Linux lowers the MTU of IPv6 routes over the link, and raises it if it was the
// link's (rt6_mtu_change_route).
func (s *state) mtusFollow(link int) bool {
	for _, h := range s.hops {
		if h.mtu != 0 && h.over(link) {
			return true
		}
	}
	return false
}
