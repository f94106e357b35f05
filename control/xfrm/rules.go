package xfrm

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

// setPolicy adds or changes a policy, which makes it the youngest.
func (t *tables) setPolicy(p *policy) {
	if p.socket {
		return // for local packets of Linux
	}
	old := t.policies[p.index]
	if old != nil && old.protects != p.protects {
		t.prefer(old, 0)
	}
	if p.refusal != "" && (old == nil || old.refusal != p.refusal) {
		t.log.Error("xfrm policy refused, matching packets are dropped as xfrm_policy_refused",
			"policy", fmt.Sprintf("%v (%v)", &p.Policy, p.direction), "reason", p.refusal, "hint", refusedHint)
	}
	t.ages++
	p.age = t.ages
	t.policies[p.index] = p
	t.rules = true
	t.prefer(p, p.spi)
}

func (t *tables) deletePolicy(index uint32) {
	if p, ok := t.policies[index]; ok {
		delete(t.policies, index)
		t.rules = true
		t.prefer(p, 0)
	}
}

// prefer sets the preferred SA of a policy's tunnel; 0 for none.
func (t *tables) prefer(p *policy, spi uint32) {
	switch {
	case p.direction != ipsec.Out || p.Action != ipsecpolicy.Protect:
		return
	case spi == 0:
		delete(t.preferredSPI, p.protects)
	default:
		t.preferredSPI[p.protects] = spi
	}
	t.selectOutbound(p.protects)
}

// setDefaults applies struct xfrm_userpolicy_default: the action for packets without a policy,
// by direction in, fwd and out.
func (t *tables) setDefaults(d [sizeofDefault]byte) {
	t.rules = t.rules || d != t.defaults
	t.defaults = d
}

// setRules replaces the gateway's rules by those of all policies.
func (t *tables) setRules() {
	sorted := make([]*policy, 0, len(t.policies))
	for _, p := range t.policies {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b *policy) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.priority, b.priority), cmp.Compare(a.age, b.age))
	})
	rules := make([]gateway.Rule, 0, len(sorted))
	clear(t.acquirePolicy)
	seen := make(map[gateway.Rule]bool, len(sorted))
	for _, p := range sorted {
		r := gateway.Rule{Direction: p.direction, IfID: p.ifID, Policy: p.Policy, Refusal: p.refusal}
		if p.Action == ipsecpolicy.Protect {
			r.Name = p.protects.String()
			r.Target = t.gateway.Tunnel(r.Name)
			if _, ok := t.acquirePolicy[r.Target]; !ok && r.Direction == ipsec.Out {
				t.acquirePolicy[r.Target] = p.index
			}
		}
		if !seen[r] { // in and fwd are often equal
			seen[r] = true
			rules = append(rules, r)
		}
	}
	if t.defaults[1] == defaultBlock { // fwd; in is for local packets of Linux
		rules = append(rules, discardAll(ipsec.In)...)
	}
	if t.defaults[2] == defaultBlock {
		rules = append(rules, discardAll(ipsec.Out)...)
	}
	if err := t.gateway.SetRules(rules); err != nil {
		t.log.Error("install XFRM policies failed, all packets are dropped", "err", err)
		rules = append(discardAll(ipsec.In), discardAll(ipsec.Out)...)
		if err := t.gateway.SetRules(rules); err != nil {
			t.log.Error("install discard-all policy failed, previous policies stay active", "err", err)
		}
	}
	t.changed = true
}

// rank is 1 for policies that permit packets to the router, 0 for others: they come last, so
// that they do not permit forwarded packets.
func (p *policy) rank() int {
	if p.toHost && (p.Action == ipsecpolicy.Bypass || p.Action == ipsecpolicy.Protect) {
		return 1
	}
	return 0
}

// discardAll returns rules that drop all packets in a direction.
func discardAll(d ipsec.Direction) []gateway.Rule {
	var rules []gateway.Rule
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		rules = append(rules, gateway.Rule{Name: "default", Direction: d, Policy: ipsecpolicy.Policy{Src: any, Dst: any}})
	}
	return rules
}
