package mirror

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestLinkDownAndUp(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add 20.0.0.0/8 via 10.2.0.2 metric 10",
		"route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2",
		"route add fd20::/16 via fd01::2 metric 10", "route add fd20::/16 via fd02::2 metric 20",
		"route add fd21::/16 nexthop via fd01::2 nexthop via fd02::2",
		"route add 22.0.0.0/8 via 10.3.0.2", "route add 22.0.0.0/8 via 10.2.0.2 metric 10")

	w.ip("link set lan down")
	w.want("10.1.0.9", "none", "20.0.0.1", wan2, "21.0.0.1", wan2, "fd20::1", wan2, "fd21::1", wan2, "fd01::9", "none")
	w.sameAsFresh()

	w.ip("link set lan up", "neigh add 10.1.0.2 dev lan lladdr 02:00:00:00:01:02", "neigh add fd01::2 dev lan lladdr 02:00:00:00:01:02")
	// Linux restores the routes of addresses, and paths of routes that had other paths.
	// IPv6 addresses and their routes are deleted unless keep_addr_on_down is set.
	w.want("10.1.0.9", "lan ?", "20.0.0.1", wan2, "21.0.0.1", lan2+"*128 "+wan2+"*128")
	w.sameAsFresh()

	w.ip("link set oob down")
	w.want("22.0.0.1", wan2)
	w.ip("link set wan down", "link set lan down")
	w.want("20.0.0.1", "none", "21.0.0.1", "none", "fd20::1", "none", "fd21::1", "none")
	w.sameAsFresh()
}

func TestLinkWithoutCarrier(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2")
	require.NoError(t, w.peer.SetDown("lan1"))
	// Linux keeps the routes, and permanent neighbors.
	w.wantSoon("20.0.0.1", "lan down 02:00:00:00:01:02")
	w.wantSoon("21.0.0.1", wan2) // the same event, a moment later
	w.sameAsFresh()
	require.NoError(t, w.peer.SetUp("lan1"))
	w.wantSoon("20.0.0.1", lan2)
	w.wantSoon("21.0.0.1", lan2+"*128 "+wan2+"*128")
	w.sameAsFresh()
}

// Changes right after a link goes down do not apply to entries that Linux deleted with it.
func TestChangesRightAfterLinkDown(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route append 20.0.0.0/8 via 10.2.0.2",
		"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 10 group 1/2",
		"route add 21.0.0.0/8 nhid 1", "route add 22.0.0.0/8 nhid 10")
	w.ip("link set lan down",
		"route replace 20.0.0.0/8 via 10.2.0.9", "route del 20.0.0.0/8 via 10.2.0.9", // the only one left
		"nexthop replace id 1 via 10.2.0.9 dev wan") // a new object: neither the group nor a route refers to it
	w.want("20.0.0.1", "none", "21.0.0.1", "none", "22.0.0.1", wan2)
	w.sameAsFresh()
}

// Linux keeps an IPv6 multipath route that has only dead paths, ignores it, and uses it again when
// the link is up, without events.
func TestDeadRoutes(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2", "route add fd20::/16 via fd01::3 metric 2000",
		"link set wan down", "route del fd20::/16 via fd01::2")
	w.want("fd20::1", lan3)
	w.ip("link set wan up")
	w.wantSoon("fd20::1", "wan ?")
	w.sameAsFresh()
}

// Linux changes the MTUs of IPv6 routes with the MTU of their link, without events.
func TestMTUsOfRoutesFollowTheirLink(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2 mtu 1400", "route add fd20::/16 via fd01::2 mtu 1400", "route add fd21::/16 via fd01::2 mtu lock 1400")
	w.ip("link set lan mtu 1350")
	w.want("20.0.0.1", lan2+" mtu 1400", "fd20::1", lan2+" mtu 1350", "fd21::1", lan2+" mtu 1400")
	w.sameAsFresh()
	w.ip("link set lan mtu 1500")
	w.want("20.0.0.1", lan2+" mtu 1400", "fd20::1", lan2+" mtu 1500", "fd21::1", lan2+" mtu 1400")
	w.sameAsFresh()
}

func TestLocalAddresses(t *testing.T) {
	w := newWorld(t).start()
	calls := func(ip string) (times int) {
		w.note(func() { times = w.locals[netip.MustParseAddr(ip)] })
		return times
	}
	has := func(ip string, want bool) {
		t.Helper()
		times := map[bool]int{true: 1}[want]
		for end := time.Now().Add(5 * time.Second); calls(ip) != times; time.Sleep(5 * time.Millisecond) { // Linux checks IPv6 addresses first (DAD)
			w.m.settle()
			if time.Now().After(end) {
				t.Fatalf("hooks have %v %d times, want %d", ip, calls(ip), times)
			}
		}
	}
	for _, ip := range []string{"10.1.0.1", "10.1.0.255", "10.3.0.1", "fd01::1", "fd03::1", "127.0.0.1", "::1"} {
		has(ip, true)
	}
	w.ip("addr add 10.9.0.1/24 dev lan", "addr add 10.9.0.1/24 dev wan", "addr add fd09::1/64 dev lan")
	has("10.9.0.1", true)
	has("10.9.0.255", true)
	has("fd09::1", true)
	w.ip("addr del 10.9.0.1/24 dev lan")
	has("10.9.0.1", true)
	w.ip("addr del 10.9.0.1/24 dev wan", "addr del fd09::1/64 dev lan")
	has("10.9.0.1", false)
	has("10.9.0.255", false)
	has("fd09::1", false)
}

// When a link with many routes is set down, the dump waits until Linux has deleted all of them.
func TestLinkDownWithManyRoutes(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	var lines []string
	for i := range 20000 {
		lines = append(lines, fmt.Sprintf("route add 20.%d.%d.0/24 via 10.1.0.2", i>>8, i&255))
	}
	w.ip(append(lines, "route add 0.0.0.0/0 via 10.2.0.2")...)
	w.want("20.0.77.1", lan2)
	w.ip("link set lan down")
	w.want("20.0.77.1", wan2, "20.5.77.1", wan2)
	w.sameAsFresh()
}
