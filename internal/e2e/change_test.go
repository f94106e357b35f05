package e2e

import (
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// Linux's changes take effect within effect, under load, and nothing else is
// lost or goes astray meanwhile.
const effect = 100 * time.Millisecond

// fork is a topology with a second server:
//
//	client ──── lan0 router wan0 ──── server   10.8.0.2  fd08::2
//	                        wan1 ──── other    10.9.0.2  fd09::2
type fork struct {
	*lab.Topology
	other  *lab.Namespace
	router *router
	others []*watch // at its link, which a fault may replace
}

func newFork(t *testing.T) *fork {
	t.Helper()
	return newForkWith(t, "")
}

// newForkWith is newFork with further lines of configuration.
func newForkWith(t *testing.T, config string) *fork {
	t.Helper()
	f := &fork{Topology: newTopology(t, lab.VethOptions{})}
	var err error
	if f.other, err = lab.New("other"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.other.Close() })
	a, b := lab.End{Namespace: f.other, Name: "other0"}, lab.End{Namespace: f.Router, Name: "wan1"}
	if err := lab.Veth(a, b, lab.VethOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		ns   *lab.Namespace
		link string
		addr string
	}{{f.Router, "wan1", "10.9.0.1/24"}, {f.Router, "wan1", "fd09::1/64"}, {f.other, "other0", "10.9.0.2/24"}, {f.other, "other0", "fd09::2/64"}} {
		if err := x.ns.AddAddr(x.link, netip.MustParsePrefix(x.addr)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "router.yaml")
	writeFile(t, file, "ports: [{interface: lan0}, {interface: wan0}, {interface: wan1}]\n"+config+"\n")
	f.router = startRouter(t, f.Router, "--config", file)
	return f
}

func (f *fork) ip(t *testing.T, args ...string) {
	t.Helper()
	must(t, f.Router, "ip", args...)
}

// warm lets the router learn its neighbours.
func (f *fork) warm(t *testing.T) {
	t.Helper()
	for _, a := range []string{"10.8.0.2", "fd08::2"} {
		if _, err := lab.Ping(f.Client, netip.MustParseAddr(a), lab.PingOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The other server's way back does not matter; its neighbour entry does.
	must(t, f.other, "ping", "-c1", "-W2", "10.9.0.1")
	must(t, f.other, "ping", "-c1", "-W2", "fd09::1")
	f.ip(t, "neigh", "replace", "10.9.0.2", "lladdr", f.mac(t, f.other, "other0").String(), "dev", "wan1")
	f.ip(t, "neigh", "replace", "fd09::2", "lladdr", f.mac(t, f.other, "other0").String(), "dev", "wan1")
}

func (f *fork) mac(t *testing.T, ns *lab.Namespace, link string) net.HardwareAddr {
	t.Helper()
	m, err := ns.MAC(link)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lastAt is when the last packet of a list arrived.
func lastAt(l []arrival) time.Time { return l[len(l)-1].at }

// firstAfter is the first packet that arrived after a time.
func firstAfter(l []arrival, after time.Time) (arrival, bool) {
	for _, a := range l {
		if a.at.After(after) {
			return a, true
		}
	}
	return arrival{}, false
}

// steady fails the test unless flow arrived whole and in order at w, and nowhere else.
func steady(t *testing.T, l *load, flow uint32, w, elsewhere *watch) {
	t.Helper()
	sent := l.sent[flow].Load()
	if lost, disorder := missing(sent, w.of(flow)); len(lost) > 0 || disorder > 0 {
		t.Errorf("steady flow %d: %d of %d packets lost (first %v), %d out of order or twice", flow, len(lost), sent, lost[:min(len(lost), 5)], disorder)
	}
	if n := len(elsewhere.of(flow)); n > 0 {
		t.Errorf("steady flow %d: %d packets went astray", flow, n)
	}
}

// Two flows a family: one to a prefix that changes, one to a prefix that does not.
var flows = []string{"10.50.0.1", "10.60.0.1", "fd50::1", "fd60::1"}

const (
	moving4, steady4, moving6, steady6 = 0, 1, 2, 3
	rate                               = 20_000
)

func TestRouteChangesTakeEffectAndDisturbNothing(t *testing.T) {
	f := newFork(t)
	f.warm(t)
	for _, r := range [][]string{
		{"route", "add", "10.50.0.0/16", "via", "10.8.0.2"}, {"route", "add", "10.60.0.0/16", "via", "10.8.0.2"},
		{"-6", "route", "add", "fd50::/64", "via", "fd08::2"}, {"-6", "route", "add", "fd60::/64", "via", "fd08::2"},
	} {
		f.ip(t, r...)
	}
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l := startLoad(t, f.Topology, rate, flows...)
	time.Sleep(200 * time.Millisecond)

	// Replace: the flow moves from one server to the other, whole.
	replaced := time.Now()
	f.ip(t, "route", "replace", "10.50.0.0/16", "via", "10.9.0.2")
	f.ip(t, "-6", "route", "replace", "fd50::/64", "via", "fd09::2")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		before, after := server.of(flow), other.of(flow)
		if len(before) == 0 || len(after) == 0 {
			t.Fatalf("flow %d: %d packets before and %d after the route was replaced", flow, len(before), len(after))
		}
		if d := lastAt(before).Sub(replaced); d > effect {
			t.Errorf("flow %d: still to the old next hop %v after the route was replaced", flow, d)
		}
		if lost, disorder := missing(before[len(before)-1].number+1, before); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order before the route was replaced", flow, len(lost), disorder)
		}
		if after[0].number != before[len(before)-1].number+1 {
			t.Errorf("flow %d: packet %d was the last by the old next hop and %d the first by the new", flow, before[len(before)-1].number, after[0].number)
		}
	}

	// Delete: the packets are dropped for want of a route.
	deleted := time.Now()
	f.ip(t, "route", "del", "10.50.0.0/16")
	f.ip(t, "-6", "route", "del", "fd50::/64")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if d := lastAt(other.of(flow)).Sub(deleted); d > effect {
			t.Errorf("flow %d: still forwarded %v after its route was deleted", flow, d)
		}
	}

	// Add again, as a blackhole's exception.
	added := time.Now()
	f.ip(t, "route", "add", "blackhole", "10.50.0.0/16")
	f.ip(t, "route", "add", "10.50.0.0/24", "via", "10.8.0.2")
	f.ip(t, "-6", "route", "add", "fd50::/48", "via", "fd08::2")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(server.of(flow), added); !ok || a.at.Sub(added) > effect {
			t.Errorf("flow %d: first forwarded %v after its route was added (%v)", flow, a.at.Sub(added), ok)
		}
	}
	l.end()
	steady(t, l, steady4, server, other)
	steady(t, l, steady6, server, other)

	// Every packet sent is accounted for: arrived, or dropped under its reason.
	var sent, arrived uint64
	for i := range flows {
		sent += uint64(l.sent[i].Load())
		arrived += uint64(len(server.of(uint32(i))) + len(other.of(uint32(i))))
	}
	if dropped := f.router.drops("no_route") + f.router.drops("blackhole"); arrived+dropped != sent {
		t.Errorf("%d packets sent, %d arrived, %d dropped as no_route or blackhole", sent, arrived, dropped)
	}
}

func TestNeighbourChangesTakeEffect(t *testing.T) {
	f := newFork(t)
	f.warm(t)
	f.ip(t, "route", "add", "10.50.0.0/16", "via", "10.8.0.77")
	f.ip(t, "route", "add", "10.60.0.0/16", "via", "10.8.0.2")
	f.ip(t, "-6", "route", "add", "fd50::/64", "via", "fd08::77")
	f.ip(t, "-6", "route", "add", "fd60::/64", "via", "fd08::2")
	set := func(mac string) {
		f.ip(t, "neigh", "replace", "10.8.0.77", "lladdr", mac, "dev", lab.WAN)
		f.ip(t, "neigh", "replace", "fd08::77", "lladdr", mac, "dev", lab.WAN)
	}
	set("02:00:00:00:77:01")
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l := startLoad(t, f.Topology, rate, flows...)
	time.Sleep(200 * time.Millisecond)
	changed := time.Now()
	set("02:00:00:00:77:02")
	time.Sleep(3 * effect)
	l.end()
	for _, flow := range []uint32{moving4, moving6} {
		arrivals := server.of(flow)
		if lost, disorder := missing(l.sent[flow].Load(), arrivals); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order", flow, len(lost), disorder)
		}
		for _, a := range arrivals {
			if old := a.mac[5] == 1; old && a.at.Sub(changed) > effect || !old && a.at.Before(changed) {
				t.Fatalf("flow %d: packet to %x %v after the change", flow, a.mac, a.at.Sub(changed))
			}
		}
	}
	steady(t, l, steady4, server, other)
	steady(t, l, steady6, server, other)
}

func TestALinkThatGoesDownAndUp(t *testing.T) {
	f := newFork(t)
	f.warm(t)
	// A specific route by the link that goes down, a general one by the other.
	for _, r := range [][]string{
		{"route", "add", "10.50.0.0/16", "via", "10.8.0.2"}, {"route", "add", "10.50.0.0/24", "via", "10.9.0.2"},
		{"route", "add", "10.60.0.0/16", "via", "10.8.0.2"},
		{"-6", "route", "add", "fd50::/48", "via", "fd08::2"}, {"-6", "route", "add", "fd50::/64", "via", "fd09::2"},
		{"-6", "route", "add", "fd60::/64", "via", "fd08::2"},
	} {
		f.ip(t, r...)
	}
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l := startLoad(t, f.Topology, rate, flows...)
	time.Sleep(200 * time.Millisecond)
	for _, flow := range []uint32{moving4, moving6} {
		if len(other.of(flow)) == 0 {
			t.Fatalf("flow %d does not take the specific route", flow)
		}
	}
	down := time.Now()
	f.ip(t, "link", "set", "wan1", "down")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(server.of(flow), down); !ok || a.at.Sub(down) > effect {
			t.Errorf("flow %d: first by the general route %v after the link went down (%v)", flow, a.at.Sub(down), ok)
		}
	}
	up := time.Now()
	f.ip(t, "link", "set", "wan1", "up")
	f.ip(t, "route", "add", "10.50.0.0/24", "via", "10.9.0.2")
	f.ip(t, "addr", "replace", "fd09::1/64", "dev", "wan1", "nodad") // Linux forgets IPv6 addresses of a link that goes down
	f.ip(t, "-6", "route", "add", "fd50::/64", "via", "fd09::2")
	time.Sleep(5 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(other.of(flow), up); !ok {
			t.Errorf("flow %d: not by the specific route again after the link came up", flow)
		} else if d := a.at.Sub(up); d > 2*effect { // the neighbour has to answer first
			t.Errorf("flow %d: by the specific route again only %v after the link came up", flow, d)
		}
	}
	l.end()
	steady(t, l, steady4, server, other)
	steady(t, l, steady6, server, other)
}

// An address that is added is Linux's at once: it answers pings. One that is
// deleted is forwarded to, or dropped, like any other.
func TestAddressChangesTakeEffect(t *testing.T) {
	f := newFork(t)
	f.warm(t)
	f.ip(t, "route", "add", "10.60.0.0/16", "via", "10.8.0.2")
	f.ip(t, "-6", "route", "add", "fd60::/64", "via", "fd08::2")
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l := startLoad(t, f.Topology, rate, "172.16.0.1", flows[steady4], "fdee::1", flows[steady6])
	time.Sleep(200 * time.Millisecond)
	f.ip(t, "addr", "add", "172.16.0.1/32", "dev", "wan1")
	f.ip(t, "addr", "add", "fdee::1/128", "dev", "wan1", "nodad")
	time.Sleep(effect)
	for _, a := range []string{"172.16.0.1", "fdee::1"} {
		if _, err := lab.Ping(f.Client, netip.MustParseAddr(a), lab.PingOptions{}); err != nil {
			t.Errorf("an address that was just added: %v", err)
		}
	}
	before := f.router.drops("no_route")
	time.Sleep(effect)
	if after := f.router.drops("no_route"); after != before {
		t.Errorf("%d packets to the new addresses were still dropped", after-before)
	}
	f.ip(t, "addr", "del", "172.16.0.1/32", "dev", "wan1")
	f.ip(t, "addr", "del", "fdee::1/128", "dev", "wan1")
	time.Sleep(effect)
	before = f.router.drops("no_route")
	time.Sleep(effect)
	if after := f.router.drops("no_route"); after-before < rate/10/4 { // half of the load for 100 ms, with room
		t.Errorf("%d packets to the deleted addresses were dropped in 100 ms, want about %d", after-before, rate/10/2)
	}
	l.end()
	steady(t, l, steady4, server, other)
	steady(t, l, steady6, server, other)
}
