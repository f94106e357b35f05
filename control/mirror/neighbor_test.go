package mirror

import (
	"fmt"
	"slices"
	"testing"
)

func TestNeighborsOfAttachedPrefixes(t *testing.T) {
	w := newWorld(t).start()
	const a, b = "lan 02:00:00:00:00:0a", "lan 02:00:00:00:00:0b"
	w.want("10.1.0.9", "lan ?", "fd01::9", "lan ?")
	w.ip("neigh add 10.1.0.9 dev lan lladdr 02:00:00:00:00:0a nud reachable", "neigh add fd01::9 dev lan lladdr 02:00:00:00:00:0a nud stale")
	w.want("10.1.0.9", a, "fd01::9", a, "10.1.0.8", "lan ?")
	w.ip("neigh replace 10.1.0.9 dev lan lladdr 02:00:00:00:00:0b nud permanent", "neigh replace fd01::9 dev lan lladdr 02:00:00:00:00:0b nud noarp")
	w.want("10.1.0.9", b, "fd01::9", b)
	w.ip("neigh del 10.1.0.9 dev lan", "neigh del fd01::9 dev lan")
	w.want("10.1.0.9", "lan ?", "fd01::9", "lan ?")
	w.ip("neigh add 10.1.0.9 dev lan lladdr 02:00:00:00:00:0a", "neigh add proxy 10.1.0.7 dev lan",
		"neigh add 10.3.0.9 dev oob lladdr 02:00:00:00:00:0a", "neigh add 10.2.0.9 dev lan lladdr 02:00:00:00:00:0a")
	w.want("10.1.0.9", a, "10.1.0.7", "lan ?", "10.3.0.9", "no port")
	w.want("10.2.0.9", "wan ?") // resolved on another link than that of its prefix
	w.ip("neigh change 10.1.0.9 dev lan nud failed")
	w.want("10.1.0.9", "lan ?")
	w.sameAsFresh()
}

func TestGatewayNeighbors(t *testing.T) {
	w := newWorld(t).start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add fd20::/16 via fe80::9 dev lan", "route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2")
	w.want("20.0.0.1", "lan ?", "fd20::1", "lan ?", "21.0.0.1", "lan ?*128 wan ?*128")
	before := w.fib.Changes()
	w.ip("neigh add 10.1.0.2 dev lan lladdr 02:00:00:00:00:0a", "neigh add fe80::9 dev lan lladdr 02:00:00:00:00:0b")
	w.want("20.0.0.1", "lan 02:00:00:00:00:0a", "fd20::1", "lan 02:00:00:00:00:0b", "21.0.0.1", "lan 02:00:00:00:00:0a*128 wan ?*128")
	if w.fib.Changes() == before {
		t.Error("a neighbor was resolved, but the FIB counts no change: waiting packets would not be retried")
	}
	w.ip("neigh change 10.1.0.2 dev lan nud failed", "neigh del fe80::9 dev lan")
	w.want("20.0.0.1", "lan ?", "fd20::1", "lan ?")
	w.sameAsFresh()
}

// A neighbor has a host route exactly while the longest route that covers it is on its link and is
// not a host route, in any order of changes.
func TestHostRoutesOfNeighbors(t *testing.T) {
	const mac = "02:00:00:00:00:0a"
	for _, family := range []struct{ host, neighbor, onLink, elsewhere, exact, below, belowElsewhere, gateway string }{
		{"10.1.0.9", "10.1.0.9 dev lan", "10.1.0.8/29 dev lan", "10.1.0.8/30 dev wan", "10.1.0.9/32 via 10.2.0.2",
			"10.1.0.0/25 dev lan", "10.1.0.0/26 via 10.2.0.2", "10.2.0.2 dev wan"},
		{"fd01::9", "fd01::9 dev lan", "fd01::8/125 dev lan", "fd01::8/126 dev wan", "fd01::9/128 via fd02::2",
			"fd01::/121 dev lan", "fd01::/122 via fd02::2", "fd02::2 dev wan"},
	} {
		type piece struct{ add, del string }
		pieces := []piece{
			{"neigh add " + family.neighbor + " lladdr " + mac, "neigh del " + family.neighbor},
			{"route add " + family.onLink, "route del " + family.onLink},
			{"route add " + family.elsewhere, "route del " + family.elsewhere},
			{"route add " + family.exact, "route del " + family.exact},
		}
		// The outcome depends on the present entries only, not on their order.
		outcomeOf := func(neighbor, onLink, elsewhere, exact bool) string {
			switch {
			case exact:
				return "wan " + mac
			case elsewhere:
				return "wan ?"
			case neighbor:
				return "lan " + mac
			}
			return "lan ?"
		}
		w := newWorld(t).start()
		w.ip("neigh add " + family.gateway + " lladdr " + mac)
		permutations([]int{0, 1, 2, 3}, func(order []int) {
			var there [4]bool
			for _, add := range []bool{true, false} {
				for _, i := range order {
					command := pieces[i].add
					if !add {
						command = pieces[i].del
					}
					w.ip(command)
					there[i] = add
					if got, want := w.outcome(family.host), outcomeOf(there[0], there[1], there[2], there[3]); got != want {
						t.Errorf("in the order %v, after %q: %q, want %q", order, command, got, want)
					}
				}
			}
		})
		w.ip(pieces[0].add, "route add "+family.below, "route add "+family.belowElsewhere)
		w.want(family.host, "wan "+mac)
		w.ip("route del " + family.belowElsewhere)
		w.want(family.host, "lan "+mac)
		w.ip("route add " + family.host + " dev lan metric 9") // host route without a gateway
		w.want(family.host, "lan "+mac)
		w.sameAsFresh()
	}
}

func permutations(p []int, f func([]int)) {
	var walk func(k int)
	walk = func(k int) {
		if k == len(p) {
			f(slices.Clone(p))
		}
		for i := k; i < len(p); i++ {
			p[k], p[i] = p[i], p[k]
			walk(k + 1)
			p[k], p[i] = p[i], p[k]
		}
	}
	walk(0)
}

func TestNeighborsAndNextHopsAreFreed(t *testing.T) {
	w := newWorld(t).start()
	start := w.m.Status()
	for round := range 3 {
		var add, del []string
		for i := 2; i < 200; i++ {
			add = append(add, fmt.Sprintf("neigh add 10.1.0.%d dev lan lladdr 02:00:00:00:00:%02x", i, i),
				fmt.Sprintf("route add 20.0.%d.0/24 nexthop via 10.1.0.%d nexthop via 10.2.0.2 weight %d", i, i, round+1))
			del = append(del, fmt.Sprintf("neigh del 10.1.0.%d dev lan", i), fmt.Sprintf("route del 20.0.%d.0/24", i))
		}
		w.ip(add...)
		if st := w.m.Status(); st.NextHops < start.NextHops+198 {
			t.Fatalf("%d next hops for 198 multipath routes", st.NextHops-start.NextHops)
		}
		w.ip(del...)
		if st := w.m.Status(); st.NextHops != start.NextHops || st.Adjacencies != start.Adjacencies || st.RoutesIPv4 != start.RoutesIPv4 {
			t.Errorf("after all is deleted: %+v, want as at start: %+v", st, start)
		}
	}
}
