// Package gateway is the IPsec side of a router: which packets are to be protected, by
// which association; which of those that arrive may pass (RFC 4301).
//
// One goroutine, the control plane's, changes a Gateway; engines use it at any time
// without locks. Policies name bundles, and a bundle has the association in use: a
// new one takes the old one's place by one store, for all policies that name it.
package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// Gateway has the associations and policies of a router. The zero Gateway is empty:
// it protects nothing and lets everything pass in clear.
type Gateway struct {
	Clock  ipsec.Clock  // of the associations' age; engines set it, once a chunk
	Nonces ipsec.Nonces // of the outbound associations

	// To be set before an engine has the gateway.
	ClampMSS      bool // lower the segment size that TCP announces in a tunnel to what fits
	FragmentAfter bool // cut IPv4 packets that are too large, and may be, when they are protected
	StrictErrors  bool // judge the quotation of every ICMP error out of a tunnel, and send no other router's error into one for its quotation

	// Missing is sent the number of a bundle for which there is a packet and no association;
	// nil where nobody could get one. It is to be set before there are policies.
	Missing chan uint32

	sad     ipsec.SAD
	rules   atomic.Pointer[Ruleset]
	bundles bundles
	holders holders
	paths   paths
}

// Rule is a policy for one direction. The Target of one that protects is a Bundle.
type Rule struct {
	Name      string // for people
	Direction ipsec.Direction
	policy.Policy
	Refusal string // why the policy cannot be followed; of policy.Refuse alone
}

// Ruleset is policies as engines look them up.
type Ruleset struct {
	all     []Rule // as they were given
	in, out *policy.Table
	bundles []*bundle
	current pages
	missing chan<- uint32 // see Gateway
}

// Add puts an association into use. An outbound one takes the place of the one that
// its bundle had, which stays until it is removed.
func (g *Gateway) Add(s *ipsec.SA) error {
	if err := g.Keep(s); err != nil {
		return err
	}
	if s.Config().Direction == ipsec.Out {
		g.Use(s)
	}
	return nil
}

// Keep has an association there: packets that arrive by it may. No packet leaves by an
// outbound one before Use.
func (g *Gateway) Keep(s *ipsec.SA) error {
	c := s.Config()
	b := g.bundles.get(c.Bundle)
	if b == nil {
		return fmt.Errorf("add security association %q: there is no bundle %d", c.Name, c.Bundle)
	}
	g.holders.share(s)
	if c.Direction == ipsec.In {
		err := g.sad.Add(s)
		if err == nil {
			b.uses++
			b.countTransport(s, 1)
		}
		return err
	}
	g.paths.add(s)
	if !slices.Contains(b.out, s) {
		b.out = append(b.out, s)
		b.uses++
	}
	return nil
}

// Use has packets leave by an outbound association, which must be there, from now on.
func (g *Gateway) Use(s *ipsec.SA) { g.bundles.current.of(s.Bundle()).Store(s) }

// Remove takes an association out of use: no packet finds it from now on, and of its
// bundle, the newest that is left is used instead. What workers have begun with it they
// finish, so that rekeying loses nothing; its keys are there until Zero.
func (g *Gateway) Remove(s *ipsec.SA) {
	c := s.Config()
	if c.Direction == ipsec.In {
		if g.sad.Remove(s) {
			b := g.bundles.get(c.Bundle)
			b.past[ipsec.In].add(s)
			b.countTransport(s, -1)
			g.bundles.leave(c.Bundle)
		}
	} else {
		g.paths.remove(s)
		b := g.bundles.get(c.Bundle)
		if i := slices.Index(b.out, s); i >= 0 {
			b.out = slices.Delete(b.out, i, i+1)
			b.past[ipsec.Out].add(s)
			g.bundles.leave(c.Bundle)
		}
		var newest *ipsec.SA
		if n := len(b.out); n > 0 {
			newest = b.out[n-1]
		}
		g.bundles.current.of(c.Bundle).CompareAndSwap(s, newest)
	}
}

// All calls yield with every association until it returns false.
func (g *Gateway) All(yield func(*ipsec.SA) bool) {
	for _, b := range g.bundles.all {
		if b == nil {
			continue
		}
		for _, s := range b.out {
			if !yield(s) {
				return
			}
		}
	}
	g.sad.All(yield)
}

// SetRules replaces all policies at once. In each direction, the first that matches
// counts. On an error the ones before stay.
func (g *Gateway) SetRules(all []Rule) error {
	r, err := g.Prepare(all)
	if err != nil {
		return err
	}
	g.Enforce(r)
	return nil
}

// Prepare is the part of SetRules that may fail. It changes nothing.
func (g *Gateway) Prepare(all []Rule) (*Ruleset, error) {
	r := &Ruleset{all: all, missing: g.Missing, bundles: g.bundles.all, current: g.bundles.current}
	var in, out []policy.Policy
	for i, rule := range all {
		if rule.Action == policy.Protect && g.bundles.get(rule.Target) == nil {
			return nil, fmt.Errorf("policy %d (%v): there is no bundle %d", i+1, &rule.Policy, rule.Target)
		}
		if rule.Direction == ipsec.In {
			in = append(in, rule.Policy)
		} else {
			out = append(out, rule.Policy)
		}
	}
	var err error
	if r.in, err = policy.Build(in); err != nil {
		return nil, fmt.Errorf("build the inbound policies: %w", err)
	}
	if r.out, err = policy.Build(out); err != nil {
		return nil, fmt.Errorf("build the outbound policies: %w", err)
	}
	return r, nil
}

// Enforce is the part that does not fail. It is for a Ruleset once.
func (g *Gateway) Enforce(r *Ruleset) {
	for _, rule := range r.all {
		if rule.Action == policy.Protect {
			g.bundles.get(rule.Target).uses++
		}
	}
	before := g.Rules()
	g.rules.Store(r)
	for _, rule := range before {
		if rule.Action == policy.Protect {
			g.bundles.leave(rule.Target)
		}
	}
}

// Rules returns the policies, in their order.
func (g *Gateway) Rules() []Rule {
	if r := g.rules.Load(); r != nil {
		return r.all
	}
	return nil
}
