package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Faults of a port affect only the flows by it, which fall back to a general route by another port.
func TestPortFaultsLoseOnlyTheirOwnFlows(t *testing.T) {
	f := newFork(t)
	routes := func() {
		f.ip(t, "route replace 10.50.0.0/24 via 10.9.0.2", "-6 route replace fd50::/64 via fd09::2")
	}
	f.ip(t,
		"route add 10.50.0.0/16 via 10.8.0.2", "route add 10.60.0.0/16 via 10.8.0.2",
		"-6 route add fd50::/48 via fd08::2", "-6 route add fd60::/64 via fd08::2",
	)
	routes()
	for _, c := range []struct {
		name   string
		lost   int           // at most, of each moving flow
		lasted time.Duration // at most, without a packet
		fault  func()
	}{
		{"the MTU changes", 0, 0, func() {
			ip(t, f.other, "link set other0 mtu 1400")
			f.ip(t, "link set wan1 mtu 1400")
			time.Sleep(effect)
			f.ip(t, "link set wan1 mtu 1500")
			ip(t, f.other, "link set other0 mtu 1500")
		}},
		{"the peer's carrier goes and comes", rate, 2 * time.Second, func() {
			ip(t, f.other, "link set other0 down")
			time.Sleep(effect)
			ip(t, f.other, "link set other0 up", "addr replace fd09::2/64 dev other0 nodad")
			time.Sleep(5 * effect)
		}},
		{"the link is set down and up", rate / 4, 500 * time.Millisecond, func() {
			f.ip(t, "link set wan1 down")
			time.Sleep(effect)
			f.ip(t, "link set wan1 up", "addr replace fd09::1/64 dev wan1 nodad")
			routes()
			time.Sleep(5 * effect)
		}},
		{"the interface is deleted and made again", rate / 4, 500 * time.Millisecond, func() {
			f.ip(t, "link del wan1")
			time.Sleep(effect)
			f.addOther(t)
			f.others = append(f.others, startWatch(t, f.other, "other0")) // the first one's link is gone
			routes()
			time.Sleep(5 * effect)
		}},
		{"the neighbors fail and are flushed", rate / 4, 500 * time.Millisecond, func() {
			f.ip(t, "neigh replace 10.9.0.2 dev wan1 nud failed", "neigh replace fd09::2 dev wan1 nud failed")
			time.Sleep(effect)
			f.ip(t, "neigh flush dev wan1")
			time.Sleep(10 * effect)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.router.T = t
			outages := f.during(t, c.fault, flows...)
			t.Logf("%+v", outages)
			for _, flow := range []int{moving4, moving6} {
				if o := outages[flow]; o.lost > c.lost || o.lasted > c.lasted {
					t.Errorf("flow %d lost %d packets, and %v at once; at most %d and %v are to be lost", flow, o.lost, o.lasted, c.lost, c.lasted)
				}
			}
			for _, flow := range []int{steady4, steady6} {
				if o := outages[flow]; o.lost > 0 || o.atOther > 0 {
					t.Errorf("steady flow %d: %+v", flow, o)
				}
			}
			// The flows use the specific route again.
			for _, o := range f.during(t, func() {}, flows[moving4], flows[moving6]) {
				if o.lost > 0 || o.atOther == 0 {
					t.Errorf("afterwards: %+v", o)
				}
			}
		})
	}
}

// Flows lose no packets when members of a next-hop group are added and removed.
func TestNextHopGroupsChangeWithoutLoss(t *testing.T) {
	f := newFork(t)
	f.ip(t,
		"nexthop add id 1 via 10.8.0.2 dev "+lab.WAN, "nexthop add id 2 via 10.9.0.2 dev wan1",
		"nexthop add id 10 group 1/2", "route add 10.70.0.0/16 nhid 10",
		"-6 nexthop add id 3 via fd08::2 dev "+lab.WAN, "-6 nexthop add id 4 via fd09::2 dev wan1",
		"nexthop add id 11 group 3/4", "-6 route add fd70::/48 nhid 11",
	)
	var dsts []string
	for i := range 16 {
		dsts = append(dsts, fmt.Sprintf("10.70.0.%d", i), fmt.Sprintf("fd70::%x", i))
	}
	atOther := func(outages []outage) (n int) {
		for i, o := range outages {
			if n += o.atOther; o.lost > 0 {
				t.Errorf("flow %d: %+v", i, o)
			}
		}
		return n
	}
	if n := atOther(f.during(t, func() {}, dsts...)); n == 0 {
		t.Error("no flow takes the second member")
	}
	both := f.during(t, func() {
		for _, c := range []string{
			"replace id 10 group 1", "replace id 11 group 3", // a member leaves
			"replace id 10 group 1,3/2,1", "replace id 11 group 3/4", // and comes back
			"replace id 2 via 10.8.0.2 dev " + lab.WAN, // becomes another
			"del id 4",              // is deleted, and the group has one less
			"replace id 10 group 2", // the other leaves
		} {
			f.ip(t, "nexthop "+c)
			time.Sleep(effect / 2)
		}
	}, dsts...)
	atOther(both)
	if n := atOther(f.during(t, func() {}, dsts...)); n != 0 {
		t.Errorf("%d packets take members that are gone", n)
	}
	f.ip(t, "nexthop del id 10") // and the route with it
	f.ip(t, "nexthop del id 11")
	f.router.equal()
}

// Routes of other tables and policy rules other than by ingress interface have no effect, and the router warns about rules.
func TestOtherTablesAreIgnored(t *testing.T) {
	f := newFork(t)
	f.ip(t, "route add 10.60.0.0/16 via 10.8.0.2", "-6 route add fd60::/64 via fd08::2")
	for i, o := range f.during(t, func() {
		f.ip(t, "route add 10.60.0.0/24 via 10.9.0.2 table 10", "-6 route add fd60::/80 via fd09::2 table 10")
		f.ip(t, "route add blackhole 10.60.0.0/24 table 11", "rule add iif lo table 10", "rule add from 192.0.2.0/24 table 10")
		f.ip(t, "route flush table 10")
	}, flows[steady4], flows[steady6]) {
		if o.lost > 0 || o.atOther > 0 {
			t.Errorf("flow %d: %+v", i, o)
		}
	}
	if st := f.router.status(); len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "policy rules are not supported") {
		t.Errorf("warnings %q, want one of the rule", st.Warnings)
	}
}

// A router that was stopped has lost netlink events. It detects that and compares all routes: the
// first packets afterwards use the new routes.
func TestLostEventsAreResynchronized(t *testing.T) {
	f := newFork(t)
	// Events of routes with a group are long and fill the socket's 256 MB sooner.
	const members, many = 120, 40_000
	var group []string
	for i := 1; i <= members; i++ {
		group = append(group, fmt.Sprint(i))
	}
	lines := []string{
		"route add 10.50.0.0/16 via 10.8.0.2", "route add 10.60.0.0/16 via 10.8.0.2",
		"route add fd50::/64 via fd08::2", "route add fd60::/64 via fd08::2",
	}
	for _, id := range group {
		lines = append(lines, "nexthop add id "+id+" via 10.9.0.2 dev wan1")
	}
	lines = append(lines, "nexthop add id 1000 group "+strings.Join(group, "/"))
	ipBatch(t, f.Router, append(lines, manyRoutes(5000, "route add 20.%d.%d.%d/32 via 10.8.0.2")...)...)
	f.router.equal()
	before := f.router.status()
	require.NoError(t, f.router.Process.Signal(unix.SIGSTOP))
	lines = append(manyRoutes(many, "route add 30.%d.%d.%d/32 nhid 1000"), manyRoutes(many-1000, "route del 30.%d.%d.%d/32")...)
	ipBatch(t, f.Router, append(lines, "route flush root 20.0.0.0/8", "route replace 10.50.0.0/16 via 10.9.0.2", "route replace fd50::/64 via fd09::2", "neigh flush dev wan1")...)
	require.NoError(t, f.router.Process.Signal(unix.SIGCONT))
	took := eventually(t, 10*time.Second, "the router compares all routes", func() bool { return f.router.status().Resyncs > before.Resyncs })
	f.router.equal()
	st := f.router.status()
	t.Logf("%d of %d events were heard; it had compared all %v after it went on", st.Events-before.Events, 2*many+5000, took)
	for i, o := range f.during(t, func() {}, flows...) {
		if moved := i == moving4 || i == moving6; o.lost > 0 || moved != (o.atOther > 0) {
			t.Errorf("flow %d: %+v", i, o)
		}
	}
}

// The router logs queues that were added to a port, and drops their frames.
func TestAddedQueuesAreReported(t *testing.T) {
	top := newTopology(t, lab.VethOptions{Queues: 2})
	must(t, top.Client, "ethtool", "-L", lab.ClientLink, "tx", "1")
	must(t, top.Router, "ethtool", "-L", lab.LAN, "rx", "1")
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	must(t, top.Router, "ethtool", "-L", lab.LAN, "rx", "2")
	eventually(t, 5*time.Second, "the router logs the queues", func() bool {
		return strings.Contains(r.Out.String(), "port has more queues than sockets") && strings.Contains(r.Out.String(), "rx 1 of a veth")
	})
	must(t, top.Router, "ethtool", "-L", lab.LAN, "rx", "1")
	for _, a := range servers {
		if _, err := lab.Ping(top.Client, netip.MustParseAddr(a), lab.PingOptions{}); err != nil {
			t.Errorf("with the queues that there were: %v", err)
		}
	}
	r.equal()
}

// A killed router leaves no XDP program behind. The next one starts within a second, has the routes
// that changed meanwhile, and loses only the packets of the time between.
func TestKilledRouterRestartsWithCurrentRoutes(t *testing.T) {
	f := newFork(t)
	f.ip(t, "route add 10.50.0.0/16 via 10.8.0.2", "route add 10.60.0.0/16 via 10.8.0.2")
	ipBatch(t, f.Router, manyRoutes(10_000, "route add 20.%d.%d.%d/32 via 10.8.0.2")...)
	if got := xdpPrograms(t, f.Router); len(got) != 3 {
		t.Fatalf("XDP programs on %v while the router runs, want on all ports", got)
	}
	var dead time.Duration
	outages := f.during(t, func() {
		start := time.Now()
		kill(t, f.router.Process)
		if got := xdpPrograms(t, f.Router); len(got) != 0 {
			t.Errorf("XDP programs on %v after SIGKILL", got)
		}
		ipBatch(t, f.Router, append(manyRoutes(5000, "route del 20.%d.%d.%d/32"), "route replace 10.50.0.0/16 via 10.9.0.2", "route flush root 10.60.0.0/15")...)
		again := time.Now()
		f.router = startRouter(t, f.Router, "--port", lab.LAN, "--port", lab.WAN, "--port", "wan1")
		if d := time.Since(again); d > time.Second && buildFlags == nil {
			t.Errorf("the next start took %v", d)
		}
		dead = time.Since(start)
		time.Sleep(2 * effect)
	}, "10.50.0.1", "10.8.0.2")
	t.Logf("there was no router for %v; %+v", dead, outages)
	for flow, o := range outages {
		if o.lasted > dead+effect || o.lost > int((dead+effect).Seconds()*rate/2) {
			t.Errorf("flow %d: %+v with no router for %v", flow, o, dead)
		}
	}
	if outages[0].atOther == 0 {
		t.Error("the replaced route is not used")
	}
}
