package gateway

import (
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// RuleFor returns the policy for a flow in a direction on an XFRM interface, or on none with if_id 0, and its
// number among Rules, counted from 1; 0 without a match. It serves traces; engines call CheckInbound and LookupOutbound.
func (g *Gateway) RuleFor(direction ipsec.Direction, ifID uint32, f *Flow) (rule Rule, number int) {
	r := g.lookup()
	in, table := r.in, r.out
	if ifID != 0 {
		p := r.byIfID.find(ifID)
		if p == nil {
			return Rule{}, 0
		}
		in, table = p.spd.in, p.spd.out
	}
	if direction == ipsec.In {
		table = in
	}
	n, _ := table.Lookup(f)
	if n == policy.None {
		return Rule{}, 0
	}
	for i := range r.all {
		if r.all[i].Direction != direction || r.all[i].IfID != ifID {
			continue
		}
		if n == 0 {
			return r.all[i], i + 1
		}
		n--
	}
	return Rule{}, 0
}
