package gateway

import (
	"fmt"
	"math/bits"
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
type Interfaces struct {
	up []uint32 // hash table of the if_ids of those that are up, 0 for none
}

// SetInterfaces replaces the XFRM interfaces. Any goroutine may call it, one at a time.
func (g *Gateway) SetInterfaces(all []Interface) {
	if len(all) == 0 {
		g.xfrm.Store(nil)
		return
	}
	x := &Interfaces{up: make([]uint32, slots(len(all)))}
	for _, i := range all {
		if !i.Up {
			continue
		}
		at := placeOf(i.IfID, len(x.up))
		for x.up[at] != 0 {
			at = (at + 1) & (len(x.up) - 1)
		}
		x.up[at] = i.IfID
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
	for at := placeOf(by.IfID(), len(x.up)); ; at = (at + 1) & (len(x.up) - 1) {
		if id := x.up[at]; id == 0 || id == by.IfID() {
			return id
		}
	}
}

// slots returns the length of a hash table of n entries, a power of two, and placeOf the first place of an if_id in it.
func slots(n int) int { return 2 << bits.Len(uint(n)) }

func placeOf(ifID uint32, slots int) int {
	return int(uint64(ifID)*0x9e3779b97f4a7c15>>32) & (slots - 1)
}

// spd is the policies with an if_id.
type spd struct {
	in, out *policy.Table
	of      *policies
}

// spds is a hash table of the policies by if_id.
type spds []ofInterface

// ofInterface is the policies of an XFRM interface. Most interfaces have one policy in each direction, for everything:
// its verdict is in the cache line that the interface is found by.
type ofInterface struct {
	ifID  uint32       // 0: none
	whole [2][2]uint32 // by direction and family: 1 plus the verdict on every packet; 0: see spd
	spd   *spd
}

// find returns the policies with an if_id, nil if there are none.
func (t spds) find(ifID uint32) *ofInterface {
	if len(t) == 0 {
		return nil
	}
	for at := placeOf(ifID, len(t)); ; at = (at + 1) & (len(t) - 1) {
		switch x := &t[at]; x.ifID {
		case ifID:
			return x
		case 0:
			return nil
		}
	}
}

// lookUp is policy.Table.Lookup for a direction.
func (x *ofInterface) lookUp(d ipsec.Direction, f *Flow) (int32, policy.Verdict) {
	family := 0
	if f.IPv6() {
		family = 1
	}
	if v := x.whole[d&1][family]; v != 0 {
		return 0, policy.Verdict(v - 1)
	}
	if d == ipsec.In {
		return x.spd.in.Lookup(f)
	}
	return x.spd.out.Lookup(f)
}

// add adds policies. There is room.
func (t spds) add(ifID uint32, p *spd) {
	at := placeOf(ifID, len(t))
	for t[at].ifID != 0 {
		at = (at + 1) & (len(t) - 1)
	}
	x := &t[at]
	x.ifID, x.spd = ifID, p
	for d, list := range p.of {
		seen := [2]bool{} // families with a policy before
		for i := range list {
			family := 0
			if list[i].Src.Addr().Is6() {
				family = 1
			}
			if !seen[family] && list[i].Everything() {
				x.whole[d][family] = uint32(list[i].Verdict()) + 1
			}
			seen[family] = true
		}
	}
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
func buildAll(lists map[uint32]*policies, before spds) (spds, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	all := make(spds, slots(len(lists)))
	for id, p := range lists {
		if old := before.find(id); old != nil && slices.Equal(old.spd.of[ipsec.In], p[ipsec.In]) && slices.Equal(old.spd.of[ipsec.Out], p[ipsec.Out]) {
			all.add(id, old.spd)
			continue
		}
		built, err := p.build(p)
		if err != nil {
			return nil, fmt.Errorf("if_id %d: %w", id, err)
		}
		all.add(id, built)
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
	p := r.byIfID.find(ifID)
	if p == nil {
		return ipsec.InNoPols
	}
	n, v := p.lookUp(ipsec.In, f)
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
	p := r.byIfID.find(ifID)
	if p == nil {
		return nil, ipsec.OutNoPols
	}
	n, v := p.lookUp(ipsec.Out, f)
	s, err := r.outboundSA(n, v)
	if err == ipsec.OK && (s == nil || s.IfID() != ifID) {
		return nil, ipsec.OutNoPols
	}
	return s, err
}
