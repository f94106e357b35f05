package gateway

import (
	"fmt"
	"slices"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// An XFRM interface is a route to a tunnel: packets that are routed over it are encrypted by the policies
// with its if_id, and policies with an if_id apply to no other packets. As in Linux, policies without an if_id apply
// to all outbound packets, and first (xfrm4_route_forward).
//
// Packets that an SA with an if_id has decrypted are received on the interface. If it is down or missing, they are
// received on the port instead, where only policies without an if_id apply: as in Linux (xfrmi_lookup), these admit
// none of them.

// Interface is an XFRM interface.
type Interface struct {
	Name string
	IfID uint32
	Up   bool
}

// Interfaces is an immutable set of XFRM interfaces.
type Interfaces struct{ byIfID map[uint32]Interface }

// SetInterfaces replaces the XFRM interfaces. Any goroutine may call it, one at a time.
func (g *Gateway) SetInterfaces(all []Interface) {
	if len(all) == 0 {
		g.xfrm.Store(nil)
		return
	}
	x := &Interfaces{byIfID: make(map[uint32]Interface, len(all))}
	for _, i := range all {
		x.byIfID[i.IfID] = i
	}
	g.xfrm.Store(x)
}

// Interfaces returns the XFRM interfaces, nil without any.
func (g *Gateway) Interfaces() *Interfaces { return g.xfrm.Load() }

// Receiving returns the if_id of the interface on which packets that an SA has decrypted are received, 0 for a port. by
// is nil for packets received in cleartext.
func (x *Interfaces) Receiving(by *ipsec.SA) (ifID uint32) {
	if x == nil || by == nil || by.IfID() == 0 {
		return 0
	}
	if i := x.byIfID[by.IfID()]; i.Up {
		return i.IfID
	}
	return 0
}

// spd is the policies with an if_id.
type spd struct {
	in, out *policy.Table
	of      *policies
}

// policies are the policies with an if_id, by direction, in their order.
type policies [2][]policy.Policy

func (p *policies) build(of *policies) (*spd, error) {
	in, err := policy.Build(p[ipsec.In])
	if err != nil {
		return nil, fmt.Errorf("build the inbound policies: %w", err)
	}
	out, err := policy.Build(p[ipsec.Out])
	if err != nil {
		return nil, fmt.Errorf("build the outbound policies: %w", err)
	}
	return &spd{in, out, of}, nil
}

// buildAll builds the policies of all interfaces. Those that have not changed since before are not built again.
func buildAll(lists map[uint32]*policies, before map[uint32]*spd) (map[uint32]*spd, error) {
	all := make(map[uint32]*spd, len(lists))
	for id, p := range lists {
		if old := before[id]; old != nil && slices.Equal(old.of[ipsec.In], p[ipsec.In]) && slices.Equal(old.of[ipsec.Out], p[ipsec.Out]) {
			all[id] = old
			continue
		}
		built, err := p.build(p)
		if err != nil {
			return nil, fmt.Errorf("if_id %d: %w", id, err)
		}
		all[id] = built
	}
	return all, nil
}

// CheckInboundRouted is CheckInboundBatch for a gateway with XFRM interfaces.
func (g *Gateway) CheckInboundRouted(l *Lookups, errs []ipsec.Error, flows []Flow, by []*ipsec.SA, x *Interfaces) {
	g.CheckInboundBatch(l, errs, flows, by)
	r := g.lookup()
	for i := range flows {
		if id := x.Receiving(by[i]); id != 0 {
			errs[i] = r.checkInboundOf(id, &flows[i], by[i])
		}
	}
}

// checkInboundOf is CheckInbound for a packet that is received on an XFRM interface.
func (r *Ruleset) checkInboundOf(ifID uint32, f *Flow, by *ipsec.SA) ipsec.Error {
	p := r.byIfID[ifID]
	if p == nil {
		return ipsec.InNoPols
	}
	n, v := p.in.Lookup(f)
	return checkInbound(n, v, by)
}

// LookupOutboundRouted is LookupOutboundBatch for packets that are routed over XFRM interfaces, by if_id, or 0.
func (g *Gateway) LookupOutboundRouted(l *Lookups, sas []*ipsec.SA, errs []ipsec.Error, flows []Flow, ifIDs []uint32) {
	var policies [Batch]int32
	var verdicts [Batch]policy.Verdict
	r := g.lookup()
	l.out.LookupBatch(r.out, policies[:], verdicts[:], flows)
	for i := range flows {
		sas[i], errs[i] = r.outboundSA(policies[i], verdicts[i])
		if ifIDs[i] != 0 && sas[i] == nil && errs[i] == ipsec.OK {
			sas[i], errs[i] = r.outboundOf(ifIDs[i], &flows[i])
		}
	}
}

// outboundOf returns the SA for a packet that is routed over an XFRM interface, and to which no policy without if_id
// applies. It never leaves in cleartext.
func (r *Ruleset) outboundOf(ifID uint32, f *Flow) (*ipsec.SA, ipsec.Error) {
	p := r.byIfID[ifID]
	if p == nil {
		return nil, ipsec.OutNoPols
	}
	n, v := p.out.Lookup(f)
	s, err := r.outboundSA(n, v)
	if err == ipsec.OK && (s == nil || s.IfID() != ifID) {
		return nil, ipsec.OutNoPols
	}
	return s, err
}
