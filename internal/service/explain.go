package service

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// routes is the part of the mirror that an explainer uses.
type routes interface {
	LookupFrom(port int, dst netip.Addr) (mirror.RouteInfo, bool)
	Adjacency(id uint32, dst netip.Addr) (mirror.NeighborInfo, bool)
}

// explainer explains an engine's decision on a packet. It repeats the lookup with the frame
// that the engine left, so that engines record nothing. If the tables have changed since, the
// explanation says so.
type explainer struct {
	fib         *fib.FIB
	routes      routes
	ports       func(number int) string
	withGateway func(func(*gateway.Gateway))
	engine      func() string
	queue       func(*dataplane.Record) int
	epoch       time.Time // when batch.Clock was zero
}

func newExplainer(f *fib.FIB, r routes, ports func(int) string, withGateway func(func(*gateway.Gateway))) *explainer {
	return &explainer{fib: f, routes: r, ports: ports, withGateway: withGateway, epoch: time.Now().Add(-batch.Clock())}
}

func (x *explainer) explain(r *dataplane.Record) status.Trace {
	d := &r.Decision
	t := status.Trace{
		Time: x.epoch.Add(r.Time), Port: x.ports(int(r.Port)), Queue: x.queue(r), Worker: r.Worker, ChunkPackets: d.Packets,
		Engine: x.engine(), Packet: describe(r.Data), Bytes: r.Len,
		Times: status.TraceTimes{
			Wait: int64(d.Submitted - d.Received), Engine: int64(d.Finished - d.Submitted), Order: int64(d.Ordered - d.Finished),
			Tx: int64(d.Sent - d.Ordered), Total: int64(d.Sent - d.Received),
		},
	}
	x.verdict(&t, d)
	if d.Result.Verdict != batch.Drop(batch.ReversePath) { // checked before all policies
		t.IPsec = x.ipsec(r)
	}
	if lookedUp(d.Result.Verdict) {
		x.walk(&t, d, r.Port)
	}
	return t
}

// lookedUp reports whether a packet with a verdict had its destination looked up.
func lookedUp(v batch.Verdict) bool {
	reason := v.Reason()
	return v.Action() == batch.ActionForward || v.Action() == batch.ActionHold ||
		v.Action() == batch.ActionDrop && (reason >= batch.NoRoute && reason <= batch.MTUExceeded || reason == batch.NoTable)
}

// verdict sets the verdict and its description.
func (x *explainer) verdict(t *status.Trace, d *dataplane.Decision) {
	v := d.Result.Verdict
	switch {
	case d.Dropped:
		t.Verdict, t.Reason, t.Description, t.Hint = "drop", d.Reason.String(), d.Reason.Description(), d.Reason.Hint()
	case v == batch.Drop(batch.NoPort):
		t.Verdict, t.Description = "to linux", "passed to Linux, which forwards it: the route leaves by an interface that is not a port"
	case v.Action() == batch.ActionForward:
		t.Verdict, t.Egress, t.SentSize = "forward", x.port(v.Port()), int(d.Result.Len())
	case v.Action() == batch.ActionHold:
		t.Verdict, t.Description = "queue", "waits for its neighbor to be resolved"
	case v.Reason() == batch.XfrmInNoStates:
		t.Verdict, t.Description = "queue", "waits for its SA"
	case v.Reason() == batch.MTUExceeded:
		t.Verdict, t.Description = "fragment", fmt.Sprintf("fragmented, at most %d bytes each", d.Result.MTU())
	default:
		t.Verdict, t.Description = "reassemble", "a fragment, kept until its packet is complete"
	}
}

func (x *explainer) port(number uint16) string {
	return x.ports(int(number))
}

// walk looks the destination of a packet that a port received up in the tables as engines do.
func (x *explainer) walk(t *status.Trace, d *dataplane.Decision, ingress uint16) {
	p, ok := ipPacket(d.After)
	if !ok {
		return
	}
	var id fib.NextHopID
	var hash uint32
	size := 0
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		t.Destination = netip.AddrFrom4([4]byte(p[16:20]))
		id, hash, size = x.fib.LookupIPv4(ingress, h.Dst()), packet.FlowHashIPv4(p, x.fib.Seed), h.TotalLen()
	} else {
		h := (*packet.IPv6)(p)
		t.Destination = netip.AddrFrom16(h.Dst())
		l4, _ := packet.FindL4(p)
		id, hash, size = x.fib.LookupIPv6(ingress, h.Dst()), packet.FlowHashIPv6(p, l4, x.fib.Seed), packet.IPv6Len+h.PayloadLen()
	}
	if route, found := x.routes.LookupFrom(int(ingress), t.Destination); found {
		t.Route, t.RouteText = &route, route.String()
	}
	hop := x.fib.NextHop(id)
	t.NextHop = &status.TraceNextHop{ID: uint32(id), Kind: hop.Kind().String()}
	now := batch.Drop(kindReasons[hop.Kind()])
	var mac fib.MAC
	if hop.Kind() == fib.KindForward {
		t.NextHop.Adjacency = hop.Index()
		if hop.Group() {
			t.NextHop.Adjacency, t.NextHop.Members = x.fib.Member(hop.Index(), hash)
			t.NextHop.Bucket = hash >> 24
		}
		if n, ok := x.routes.Adjacency(t.NextHop.Adjacency, t.Destination); ok {
			t.NextHop.Neighbor = &n
		}
		now, mac = x.egress(hop, t.NextHop.Adjacency, size)
	}
	forwarded := d.Result.Verdict.Action() == batch.ActionForward
	if now != d.Result.Verdict || forwarded && mac != macOf(d.After) {
		t.Changed = "tables changed since then: now the packet is " + x.outcome(now, mac)
	}
}

// kindReasons are the drop reasons of next hops by kind.
var kindReasons = [...]batch.Reason{
	fib.KindNone: batch.NoRoute, fib.KindForward: batch.Unprocessed, fib.KindLocal: batch.LocalDelivery, fib.KindBlackhole: batch.Blackhole,
	fib.KindUnreachable: batch.Unreachable, fib.KindProhibit: batch.Prohibit, fib.KindNoPort: batch.NoPort, fib.KindNoTable: batch.NoTable,
}

// egress returns the verdict of an adjacency of a next hop for a packet of size bytes.
func (x *explainer) egress(hop fib.NextHop, adjacency uint32, size int) (batch.Verdict, fib.MAC) {
	a := x.fib.Adjacency(adjacency)
	port := x.fib.Port(a.Port())
	switch {
	case port.MTU() == 0:
		return batch.Drop(batch.PortDown), 0
	case size > int(hop.Limit(port.MTU())):
		return batch.Drop(batch.MTUExceeded), 0
	case !a.Resolved():
		return batch.Hold, 0
	}
	return batch.Forward(a.Port()), a.MAC()
}

func (x *explainer) outcome(v batch.Verdict, mac fib.MAC) string {
	switch v.Action() {
	case batch.ActionForward:
		return fmt.Sprintf("forwarded by %s to %v", x.port(v.Port()), mac)
	case batch.ActionHold:
		return "queued for its neighbor"
	}
	return fmt.Sprintf("dropped as %v", v.Reason())
}

func macOf(frame []byte) fib.MAC {
	m, _ := fib.ParseMAC(frame[:6])
	return m
}

// ipPacket returns the packet of a frame if its headers are complete. A tap may have cut a frame
// that an engine found valid.
func ipPacket(frame []byte) (p []byte, ok bool) {
	if len(frame) < packet.EthernetLen {
		return nil, false
	}
	p = frame[packet.EthernetLen:]
	switch (*packet.Ethernet)(frame).Type() {
	case packet.EtherTypeIPv4:
		if len(p) < packet.IPv4Len || p[0] != 0x45 {
			return nil, false
		}
		n := (*packet.IPv4)(p).TotalLen()
		return p[:min(n, len(p))], n >= packet.IPv4Len && n <= len(p)
	case packet.EtherTypeIPv6:
		if len(p) < packet.IPv6Len || p[0]>>4 != 6 {
			return nil, false
		}
		n := packet.IPv6Len + (*packet.IPv6)(p).PayloadLen()
		if n > len(p) {
			return nil, false
		}
		_, ok = packet.FindL4(p[:n])
		return p[:n], ok
	}
	return nil, false
}
