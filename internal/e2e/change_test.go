package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// flows are two per family: one to a prefix that changes and one to a prefix that does not.
var flows = []string{"10.50.0.1", "10.60.0.1", "fd50::1", "fd60::1"}

const (
	moving4, steady4, moving6, steady6 = 0, 1, 2, 3
	rate                               = 20_000
)

func TestRouteChangesTakeEffectWithoutLoss(t *testing.T) {
	f := newFork(t)
	f.ip(t,
		"route add 10.50.0.0/16 via 10.8.0.2", "route add 10.60.0.0/16 via 10.8.0.2",
		"-6 route add fd50::/64 via fd08::2", "-6 route add fd60::/64 via fd08::2",
	)
	l, server, other := f.load(t, flows...)

	// Replace: the flow moves from one server to the other without loss.
	replaced := time.Now()
	f.ip(t, "route replace 10.50.0.0/16 via 10.9.0.2", "-6 route replace fd50::/64 via fd09::2")
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

	// Delete: the packets are dropped as no_route.
	deleted := time.Now()
	f.ip(t, "route del 10.50.0.0/16", "-6 route del fd50::/64")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if d := lastAt(other.of(flow)).Sub(deleted); d > effect {
			t.Errorf("flow %d: still forwarded %v after its route was deleted", flow, d)
		}
	}

	// Add again, as an exception to a blackhole.
	added := time.Now()
	f.ip(t, "route add blackhole 10.50.0.0/16", "route add 10.50.0.0/24 via 10.8.0.2", "-6 route add fd50::/48 via fd08::2")
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(server.of(flow), added); !ok || a.at.Sub(added) > effect {
			t.Errorf("flow %d: first forwarded %v after its route was added (%v)", flow, a.at.Sub(added), ok)
		}
	}
	steady(t, l, server, other)

	// Every packet sent is accounted for: arrived, or dropped under its reason.
	var sent, arrived uint64
	for i := range flows {
		sent += uint64(l.sent[i].Load())
		arrived += uint64(len(server.of(uint32(i))) + len(other.of(uint32(i))))
	}
	if dropped := f.router.Drops("no_route") + f.router.Drops("blackhole"); arrived+dropped != sent {
		t.Errorf("%d packets sent, %d arrived, %d dropped as no_route or blackhole", sent, arrived, dropped)
	}
}

func TestNeighborChangesTakeEffect(t *testing.T) {
	f := newFork(t)
	f.ip(t, "route add 10.50.0.0/16 via 10.8.0.77", "route add 10.60.0.0/16 via 10.8.0.2")
	f.ip(t, "-6 route add fd50::/64 via fd08::77", "-6 route add fd60::/64 via fd08::2")
	set := func(mac string) {
		f.ip(t, "neigh replace 10.8.0.77 lladdr "+mac+" dev "+lab.WAN, "neigh replace fd08::77 lladdr "+mac+" dev "+lab.WAN)
	}
	set("02:00:00:00:77:01")
	l, server, other := f.load(t, flows...)
	changed := time.Now()
	set("02:00:00:00:77:02")
	time.Sleep(3 * effect)
	steady(t, l, server, other)
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
}

func TestTrafficFollowsALinkDownAndUp(t *testing.T) {
	f := newFork(t)
	// A specific route by the link that goes down, a general route by the other.
	f.ip(t,
		"route add 10.50.0.0/16 via 10.8.0.2", "route add 10.50.0.0/24 via 10.9.0.2",
		"route add 10.60.0.0/16 via 10.8.0.2",
		"-6 route add fd50::/48 via fd08::2", "-6 route add fd50::/64 via fd09::2",
		"-6 route add fd60::/64 via fd08::2",
	)
	l, server, other := f.load(t, flows...)
	for _, flow := range []uint32{moving4, moving6} {
		if len(other.of(flow)) == 0 {
			t.Fatalf("flow %d does not take the specific route", flow)
		}
	}
	f.ip(t, "link set wan1 down")
	down := time.Now() // the command itself takes as long as the machine is busy
	time.Sleep(3 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(server.of(flow), down); !ok || a.at.Sub(down) > effect {
			t.Errorf("flow %d: first by the general route %v after the link went down (%v)", flow, a.at.Sub(down), ok)
		}
	}
	f.ip(t, "link set wan1 up", "route add 10.50.0.0/24 via 10.9.0.2")
	f.ip(t, "addr replace fd09::1/64 dev wan1 nodad") // Linux deletes the IPv6 addresses of a link that goes down
	f.ip(t, "-6 route add fd50::/64 via fd09::2")
	up := time.Now()
	time.Sleep(5 * effect)
	for _, flow := range []uint32{moving4, moving6} {
		if a, ok := firstAfter(other.of(flow), up); !ok {
			t.Errorf("flow %d: not by the specific route again after the link came up", flow)
		} else if d := a.at.Sub(up); d > 2*effect { // the neighbor has to answer first
			t.Errorf("flow %d: by the specific route again only %v after the link came up", flow, d)
		}
	}
	steady(t, l, server, other)
}

// An added address answers pings at once. Packets to a deleted one are forwarded or dropped like
// any other.
func TestAddressChangesTakeEffect(t *testing.T) {
	f := newFork(t)
	f.ip(t, "route add 10.60.0.0/16 via 10.8.0.2", "-6 route add fd60::/64 via fd08::2")
	l, server, other := f.load(t, "172.16.0.1", flows[steady4], "fdee::1", flows[steady6])
	f.ip(t, "addr add 172.16.0.1/32 dev wan1", "addr add fdee::1/128 dev wan1 nodad")
	time.Sleep(effect)
	for _, a := range []string{"172.16.0.1", "fdee::1"} {
		checkPing(t, f.Client, netip.MustParseAddr(a), lab.PingOptions{})
	}
	before := f.router.Drops("no_route")
	time.Sleep(effect)
	if after := f.router.Drops("no_route"); after != before {
		t.Errorf("%d packets to the new addresses were still dropped", after-before)
	}
	f.ip(t, "addr del 172.16.0.1/32 dev wan1", "addr del fdee::1/128 dev wan1")
	time.Sleep(effect)
	before = f.router.Drops("no_route")
	time.Sleep(effect)
	if after := f.router.Drops("no_route"); after-before < rate/10/4 { // half of the load for 100 ms, with room
		t.Errorf("%d packets to the deleted addresses were dropped in 100 ms, want about %d", after-before, rate/10/2)
	}
	steady(t, l, server, other)
}
