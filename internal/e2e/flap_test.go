package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/routes"
)

// destination returns an address that a route by a next hop leads to, and no other.
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

// FRR's routes by three of four next hops are withdrawn and announced again, under
// load. What the fourth's routes carry arrives whole and in order. What theirs
// carry takes the default route by the other server meanwhile, and nothing is lost.
func TestFlappingRoutesDisturbNoOthers(t *testing.T) {
	f := newForkWith(t, "napi: thread") // daemons that work at full speed are below the workers then
	f.warm(t)
	nextHopsAnswer(t, f.Topology)
	f.ip(t, "route", "add", "default", "via", "10.9.0.2")
	f.ip(t, "-6", "route", "add", "default", "via", "fd09::2")
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

	dsts := []string{
		table.destination(t, routes.IPv4, 1), table.destination(t, routes.IPv4, 0),
		table.destination(t, routes.IPv6, 1), table.destination(t, routes.IPv6, 0),
	}
	rate := rate
	if fullScale() {
		rate = f.maximum(t, dsts...) / 2
	}
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	dropped := f.droppedByLinux(t)
	l, start := startLoad(t, f.Topology, rate, dsts...), time.Now()
	time.Sleep(200 * time.Millisecond)
	// To count Linux's own routes holds a core for milliseconds, so only the router's are.
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
	const hosts = 2 * nextHops // of the next hops, which the router has routes of its own for
	for range 2 {
		flap("disable", func(ipv4, ipv6 int) bool {
			return ipv4 <= len(table.byHop[4][0])+hosts && ipv6 <= len(table.byHop[6][0])+hosts
		})
		flap("enable", func(ipv4, ipv6 int) bool { return ipv4 >= table.ipv4 && ipv6 >= table.ipv6 })
	}
	l.end()
	sent := 0
	for flow := range l.sent {
		sent += int(l.sent[flow].Load())
	}
	t.Logf("%.0f packets/s sent, of %d asked for", float64(sent)/time.Since(start).Seconds(), rate)
	f.router.equal()
	here, there := server.of, other.of
	for flow := range uint32(len(l.sent)) {
		t.Logf("flow %d: %d packets, %d by its route, %d by the default route", flow, l.sent[flow].Load(), len(here(flow)), len(there(flow)))
		if moves := flow == moving4 || flow == moving6; len(here(flow)) == 0 || moves != (len(there(flow)) > 0) {
			t.Errorf("flow %d went astray", flow)
		}
	}
	if lost := lostOf(t, l, server, other); lost > f.droppedByLinux(t)-dropped {
		t.Errorf("%d packets lost, of which Linux dropped %d between the namespaces", lost, f.droppedByLinux(t)-dropped)
	} else if lost > 0 {
		t.Logf("%d packets lost, all by Linux between the namespaces", lost)
	}
}

// maximum is how many packets a second cross when more are sent than can.
func (f *fork) maximum(t *testing.T, dsts ...string) int {
	t.Helper()
	server := startWatch(t, f.Server, lab.ServerLink)
	l, start := startLoad(t, f.Topology, 10_000_000, dsts...), time.Now()
	time.Sleep(time.Second)
	took, n := time.Since(start), 0
	for flow := range dsts {
		n += len(server.of(uint32(flow)))
	}
	l.end()
	most := int(float64(n) / took.Seconds())
	t.Logf("at most %d packets/s cross", most)
	return most
}

// resolve lets the router learn the next hops of the table.
func (f *fork) resolve(t *testing.T) {
	t.Helper()
	for i := range nextHops {
		for _, hop := range []string{fmt.Sprintf("10.8.0.1%d", i+1), fmt.Sprintf("fd08::1%d", i+1)} {
			if _, err := lab.Ping(f.Router, netip.MustParseAddr(hop), lab.PingOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lostOf is how many packets of a load arrived at none of the watches. It fails the
// test if a packet arrived out of order, or twice.
func lostOf(t *testing.T, l *load, watches ...*watch) (n int) {
	t.Helper()
	for flow := range uint32(len(l.sent)) {
		var arrivals [][]arrival
		for _, w := range watches {
			arrivals = append(arrivals, w.of(flow))
		}
		lost, disorder := missing(l.sent[flow].Load(), arrivals...)
		if n += len(lost); disorder > 0 {
			t.Errorf("flow %d: %d packets out of order or twice", flow, disorder)
		}
	}
	return n
}

// droppedByLinux counts what Linux dropped because a queue was full, as it is when who
// takes from it has had no processor for long: a veth's, or the receive ring of a port.
func (f *fork) droppedByLinux(t *testing.T) (n int) {
	t.Helper()
	for _, end := range []lab.End{{Namespace: f.Client, Name: lab.ClientLink}, {Namespace: f.Router, Name: lab.WAN}} {
		link, err := end.Namespace.Link(end.Name)
		if err != nil {
			t.Fatal(err)
		}
		n += int(link.Attrs().Statistics.TxDropped)
	}
	var ports []status.Port
	if err := f.router.get("/ports", &ports); err != nil {
		t.Fatal(err)
	}
	for _, p := range ports {
		n += int(p.Rings.RxDropped + p.Rings.RxRingFull)
	}
	return n
}
