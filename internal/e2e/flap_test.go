package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

// destination returns an address that only a route by one next hop covers.
func (a *announcement) destination(t *testing.T, f routes.Family, hop int) string {
	t.Helper()
	all := map[netip.Prefix]bool{}
	for _, prefixes := range a.byHop[int(f)] {
		for _, p := range prefixes {
			all[p] = true
		}
	}
candidates:
	for _, candidate := range a.byHop[int(f)][hop] {
		ip := candidate.Addr().Next()
		for bits := range f.Bits() + 1 {
			if p, _ := ip.Prefix(bits); p != candidate && all[p] {
				continue candidates
			}
		}
		return ip.String()
	}
	t.Fatalf("next hop %d has no route that stands alone", hop)
	return ""
}

// FRR withdraws and announces the routes of three of four next hops under load. Flows by the fourth are
// not affected; the others use the default route meanwhile, without loss.
func TestFlappingRoutesLeaveOtherFlowsIntact(t *testing.T) {
	f := newFork(t, "napi: thread") // daemons that work at full speed are below the workers then
	nextHopsAnswer(t, f.Topology)
	f.ip(t, "route add default via 10.9.0.2", "-6 route add default via fd09::2")
	before := tablesOf(t, f.router, f.Router)
	startFRR(t, f.Router, firstCore, frrConfig)
	stayOnFirstCore(t)
	dir := t.TempDir()
	n4, n6 := 100_000*nextHops/(nextHops-1), 4000
	if !fullScale() {
		n4 /= 4
	}
	table := announce(t, dir, n4, n6)
	b := startBird(t, f.Server, firstCore, dir, serverConfig(table.config))
	before.converge(t, f.router, f.Router, time.Now(), table.ipv4, table.ipv6)
	f.resolve(t)

	x := f.traffic(t,
		table.destination(t, routes.IPv4, 1), table.destination(t, routes.IPv4, 0),
		table.destination(t, routes.IPv6, 1), table.destination(t, routes.IPv6, 0),
	)
	rate := rate
	var quiet []float64 // shares of packets lost while no route flaps, caused by other load of the machine
	still := func() {
		const d = 20 * time.Second
		achieved, _, a := x.trial(t, rate, d)
		quiet = append(quiet, float64(a.lost)/(achieved*d.Seconds()))
		t.Logf("while no route flaps: %.0f packets/s, %+v", achieved, a)
	}
	if fullScale() {
		rate = x.maximum(t) / 2
		still()
	}
	full := x.full(t)
	x.start(t, rate)
	time.Sleep(200 * time.Millisecond)
	// Counting Linux's routes occupies a core for milliseconds, so only the router's are counted.
	flap := func(what string, done func(ipv4, ipv6 int) bool) {
		for i := 1; i < nextHops; i++ {
			for _, family := range []int{4, 6} {
				b.do(t, fmt.Sprintf("%s table%d_%d", what, family, i))
			}
		}
		took := eventually(t, time.Minute, what+"d routes", func() bool {
			now := f.router.status()
			return done(now.RoutesIPv4-before.router4, now.RoutesIPv6-before.router6)
		})
		t.Logf("%sd after %.2f s", what, took.Seconds())
	}
	const hosts = 2 * nextHops // routes to the next hops themselves
	for range 2 {
		flap("disable", func(ipv4, ipv6 int) bool {
			return ipv4 <= len(table.byHop[4][0])+hosts && ipv6 <= len(table.byHop[6][0])+hosts
		})
		flap("enable", func(ipv4, ipv6 int) bool { return ipv4 >= table.ipv4 && ipv6 >= table.ipv6 })
	}
	took := x.stop(t)
	full = x.full(t).since(full)
	f.router.equal()

	sent, all := x.sent(t)
	achieved := float64(all) / took.Seconds()
	t.Logf("%.0f packets/s sent, of %d asked for; %+v packets dropped at full queues", achieved, rate, full)
	accounts, lost := x.accounts(t)
	for flow, a := range accounts {
		here, there := x.arrived(t, flow)
		t.Logf("flow %d: %d packets, %d by its route, %d by the default route; %+v", flow, sent[flow], here.Packets, there.Packets, a)
		if moves := flow == moving4 || flow == moving6; here.Packets == 0 || moves != (there.Packets > 0) || here.Misrouted+there.Misrouted > 0 {
			t.Errorf("flow %d went astray", flow)
		}
		if a.disorder > 0 {
			t.Errorf("flow %d: %d packets out of order or twice", flow, a.disorder)
		}
	}
	// On a busy machine a queue overflows while its reader is not scheduled.
	excused := full.router + full.sinks
	if fullScale() {
		still()
		excused = int(2 * slices.Max(quiet) * float64(all))
		if achieved < 0.95*float64(rate) {
			t.Errorf("the load was %.0f packets/s, want half the maximum, %d", achieved, rate)
		}
	}
	if lost.lost > excused {
		t.Errorf("%d packets lost, want at most %d, by other load of the machine", lost.lost, excused)
	}
	t.Logf("%d packets lost, and %d while the machine stood still", lost.lost, lost.stalled)
}

// resolve resolves the next hops of the table.
func (f *fork) resolve(t *testing.T) {
	t.Helper()
	for i := range nextHops {
		for _, hop := range []string{fmt.Sprintf("10.8.0.1%d", i+1), fmt.Sprintf("fd08::1%d", i+1)} {
			mustPing(t, f.Router, netip.MustParseAddr(hop), lab.PingOptions{})
		}
	}
}

// droppedByLinux counts drops at full queues of veths and receive rings, whose readers were not
// scheduled.
func (f *fork) droppedByLinux(t *testing.T) (n int) {
	t.Helper()
	for _, end := range []lab.End{{Namespace: f.Client, Name: lab.ClientLink}, {Namespace: f.Router, Name: lab.WAN}} {
		link, err := end.Namespace.Link(end.Name)
		require.NoError(t, err)
		n += int(link.Attrs().Statistics.TxDropped)
	}
	var ports []status.Port
	require.NoError(t, f.router.Get("/ports", &ports))
	for _, p := range ports {
		n += int(p.Rings.RxDropped + p.Rings.RxRingFull)
	}
	return n
}
