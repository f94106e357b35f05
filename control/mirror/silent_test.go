package mirror

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// With net.ipv6.route.skip_notify_on_dev_down, which FRR's documentation requests, Linux does not
// report IPv6 routes that it removes from a link.
func TestIPv6DisabledOnALinkWithoutEvents(t *testing.T) {
	for _, test := range []struct{ name, setting, value string }{
		{"disabled", "net.ipv6.conf.wan.disable_ipv6", "1"},
		{"below the least MTU", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.router.Sysctl("net.ipv6.route.skip_notify_on_dev_down", "1"))
			w.ip(known...)
			w.start()
			w.ip("route add fd20::/16 via fd02::2", "route add fd21::/16 nexthop via fd01::2 nexthop via fd02::2",
				"route add fd22::/16 dev wan", "route append fd22::/16 dev lan")
			if test.setting != "" {
				require.NoError(t, w.router.Sysctl(test.setting, test.value))
			} else {
				w.ip("link set wan mtu 1200")
			}
			w.m.settle()
			w.want("fd20::1", "none", "fd02::9", "none", "fd21::1", lan2, "fd22::1", "lan ?")
			w.sameAsFresh()
		})
	}
}

// Linux ignores a path when the last IPv4 address of its link is deleted or IPv6 is disabled on it,
// and uses it again after the next address, without events.
func TestPathsWithoutLinkAddressesAreDead(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2", "route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2",
		"route add 22.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2",
		"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2", "route add fd21::/16 nexthop via fd01::2 nexthop via fd02::2")
	both := lan2 + "*128 " + wan2 + "*128"
	w.want("20.0.0.1", both, "fd20::1", both)

	w.ip("addr del 10.2.0.1/24 dev wan")
	require.NoError(t, w.router.Sysctl("net.ipv6.conf.wan.disable_ipv6", "1"))
	w.m.settle()
	w.want("20.0.0.1", lan2, "21.0.0.1", lan2, "fd20::1", lan2, "fd21::1", lan2)
	w.sameAsFresh()
	w.ip("route del 21.0.0.0/8", "route del fd21::/16", "route append 22.0.0.0/8 via 10.1.0.3")
	w.want("21.0.0.1", "none", "fd21::1", "none", "22.0.0.1", lan2)

	require.NoError(t, w.router.Sysctl("net.ipv6.conf.wan.disable_ipv6", "0"))
	w.ip("addr add 10.2.0.1/24 dev wan", "addr add fd02::1/64 dev wan", "neigh replace 10.2.0.2 dev wan lladdr 02:00:00:00:02:02", "neigh replace fd02::2 dev wan lladdr 02:00:00:00:02:02")
	w.wantSoon("fd20::1", both)
	w.want("20.0.0.1", both, "22.0.0.1", both)
	w.sameAsFresh()

	w.ip("addr del 10.2.0.1/24 dev wan", "link set lan down") // deletes the last path, too
	w.want("20.0.0.1", "none", "22.0.0.1", "none")
	w.sameAsFresh()
}

// With ignore_routes_with_linkdown, a route over a link without carrier is ignored, but replaces
// the route that it names.
func TestRouteReplacedByAnIgnoredOne(t *testing.T) {
	w := newWorld(t)
	for _, family := range []string{"ipv4", "ipv6"} {
		require.NoError(t, w.router.Sysctl("net."+family+".conf.wan.ignore_routes_with_linkdown", "1"))
	}
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add fd20::/16 via fd01::2")
	require.NoError(t, w.peer.SetDown("wan1"))
	w.wantSoon("10.2.0.9", "none")
	w.ip("route replace 20.0.0.0/8 via 10.2.0.2", "route replace fd20::/16 via fd02::2")
	w.want("20.0.0.1", "none", "fd20::1", "none")
	w.sameAsFresh()
	require.NoError(t, w.peer.SetUp("wan1"))
	w.wantSoon("20.0.0.1", wan2)
	w.wantSoon("fd20::1", wan2)
	w.sameAsFresh()
}
