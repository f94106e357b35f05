package gateway

import (
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// RuleFor returns the policy for a flow in a direction, and its number among Rules, counted from 1;
// 0 without a match. It serves traces; engines call CheckInbound and LookupOutbound.
func (g *Gateway) RuleFor(direction ipsec.Direction, f *Flow) (rule Rule, number int) {
	r := g.lookup()
	table := r.out
	if direction == ipsec.In {
		table = r.in
	}
	n, _ := table.Lookup(f)
	if n == policy.None {
		return Rule{}, 0
	}
	for i := range r.all {
		if r.all[i].Direction != direction {
			continue
		}
		if n == 0 {
			return r.all[i], i + 1
		}
		n--
	}
	return Rule{}, 0
}
