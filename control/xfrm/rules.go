package xfrm

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

// setPolicy takes a policy that is new or was changed, which makes it the youngest.
func (t *tables) setPolicy(p *policy) {
	if p.socket {
		return // of packets that Linux itself sends or receives
	}
	old := t.policies[p.index]
	if old != nil && old.protects != p.protects {
		t.ask(old, 0)
	}
	if p.refusal != "" && (old == nil || old.refusal != p.refusal) {
		t.log.Error("XFRM policy refused; packets that it may match are dropped as xfrm_policy_refused",
			"policy", p.Policy.String(), "direction", p.direction, "reason", p.refusal, "hint", p.hint())
	}
	t.ages++
	p.age = t.ages
	t.policies[p.index] = p
	t.rules = true
	t.ask(p, p.spi)
}

func (t *tables) deletePolicy(index uint32) {
	if p, ok := t.policies[index]; ok {
		delete(t.policies, index)
		t.rules = true
		t.ask(p, 0)
	}
}

// ask has packets leave by the association that a policy asks for, or by none in
// particular.
func (t *tables) ask(p *policy, spi uint32) {
	switch {
	case p.direction != ipsec.Out || p.Action != ipsecpolicy.Protect:
		return
	case spi == 0:
		delete(t.asked, p.protects)
	default:
		t.asked[p.protects] = spi
	}
	t.choose(p.protects)
}

// setDefaults takes struct xfrm_userpolicy_default: what becomes of packets that no
// policy is for, in, forwarded and out.
func (t *tables) setDefaults(d [sizeofDefault]byte) {
	t.rules = t.rules || d != t.defaults
	t.defaults = d
}

// setRules sets the gateway's rules by all policies.
func (t *tables) setRules() {
	sorted := make([]*policy, 0, len(t.policies))
	for _, p := range t.policies {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b *policy) int {
		return cmp.Or(cmp.Compare(a.turn(), b.turn()), cmp.Compare(a.priority, b.priority), cmp.Compare(a.age, b.age))
	})
	rules := make([]gateway.Rule, 0, len(sorted))
	clear(t.wanting)
	seen := make(map[gateway.Rule]bool, len(sorted))
	for _, p := range sorted {
		r := gateway.Rule{Direction: p.direction, Policy: p.Policy, Refusal: p.refusal}
		if p.Action == ipsecpolicy.Protect {
			r.Name = p.protects.String()
			r.Target = t.gateway.Bundle(r.Name)
			if _, is := t.wanting[r.Target]; !is && r.Direction == ipsec.Out {
				t.wanting[r.Target] = p.index
			}
		}
		if !seen[r] { // in and fwd are often the same to us
			seen[r] = true
			rules = append(rules, r)
		}
	}
	if t.defaults[1] == defaultBlock { // of forwarded packets: Linux sees to its own
		rules = append(rules, discardAll(ipsec.In)...)
	}
	if t.defaults[2] == defaultBlock {
		rules = append(rules, discardAll(ipsec.Out)...)
	}
	if err := t.gateway.SetRules(rules); err != nil {
		t.log.Error("the XFRM policies cannot be used; all packets are dropped", "err", err)
		rules = append(discardAll(ipsec.In), discardAll(ipsec.Out)...)
		if err := t.gateway.SetRules(rules); err != nil {
			t.log.Error("nor can that be done; the policies before stay", "err", err)
		}
	}
	t.changed = true
}

// turn is 1 for what lets packets to the router itself pass: it comes behind all that is for
// forwarded packets, which it is not to let pass, and 0 for the others.
func (p *policy) turn() int {
	if p.toHost && (p.Action == ipsecpolicy.Bypass || p.Action == ipsecpolicy.Protect) {
		return 1
	}
	return 0
}

// discardAll are the rules that let nothing pass in a direction.
func discardAll(d ipsec.Direction) []gateway.Rule {
	var rules []gateway.Rule
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		rules = append(rules, gateway.Rule{Name: "default", Direction: d, Policy: ipsecpolicy.Policy{Src: any, Dst: any}})
	}
	return rules
}
