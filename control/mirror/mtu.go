package mirror

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// What every way must carry, in bytes (RFC 791, RFC 8200 section 5). Linux takes less from
// the user, and then tells senders of sizes that they do not heed.
const (
	minMTUIPv4 = 68
	minMTUIPv6 = 1280
)

// mtuOf returns the MTU that a route asks for, 0 if it asks for none or forwards nothing.
// Linux's `mtu lock` says that path MTU discovery shall not change it: a router, which
// discovers for nobody, treats both alike.
func mtuOf(r *rtnl.Route) uint16 {
	least := uint32(minMTUIPv4)
	if r.Family == unix.AF_INET6 {
		least = minMTUIPv6
	}
	if r.MTU == 0 || r.Type != unix.RTN_UNICAST && r.NexthopID == 0 { // the type of a route by an object is the object's
		return 0
	}
	return uint16(min(max(r.MTU, least), math.MaxUint16))
}

// mtuMayFollow reports whether Linux may change MTUs of routes without telling when that of
// a link changes: of IPv6 routes over the link that have one, which it lowers, and raises if
// it was the link's (rt6_mtu_change_route).
func (s *state) mtuMayFollow(link int) bool {
	for _, h := range s.hops {
		if h.mtu != 0 && h.over(link) {
			return true
		}
	}
	return false
}
