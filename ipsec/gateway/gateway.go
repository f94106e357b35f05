// Package gateway binds the security policy database (SPD) to SAs (RFC 4301): which outbound packets
// are encrypted by which SA, and which inbound packets may enter.
//
// One goroutine, the control plane's, changes a Gateway; engines use it concurrently without locks.
// Policies name tunnels, and a tunnel has a current outbound SA. One store replaces it for all
// policies that name the tunnel.
package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// Gateway holds the SAs and policies of a router. The zero Gateway encrypts nothing and admits
// everything in cleartext.
type Gateway struct {
	Clock  ipsec.Clock  // for the age of SAs; engines set it once per chunk
	Nonces ipsec.Nonces // of outbound SAs

	// Set before an engine has the gateway.
	ClampMSS      bool // lower the MSS of TCP connections to the tunnel's MTU
	FragmentAfter bool // fragment ESP packets, not their inner packets, if IPv4 allows that
	StrictErrors  bool // check the quotation of every ICMP error out of a tunnel, and admit none of other routers into one by its quotation

	// Missing receives the number of a tunnel for which there is a packet and no SA; nil if nobody
	// can create one. Set before there are policies.
	Missing chan uint32

	sad     ipsec.SAD
	rules   atomic.Pointer[Ruleset]
	xfrm    atomic.Pointer[Interfaces]
	tunnels tunnels
	devices devices
	paths   paths
}

// Rule is a policy for one direction. The Target of a protecting one is a tunnel's number.
type Rule struct {
	Name      string // for display
	Direction ipsec.Direction
	IfID      uint32 // of the XFRM interface whose packets it is for, 0 for the others
	policy.Policy
	Refusal string // why the policy is not supported; with policy.Refuse only
}

// Ruleset is a set of policies, compiled for lookup.
type Ruleset struct {
	all     []Rule        // in the order given
	in, out *policy.Table // with if_id 0
	byIfID  spds          // the others
	tunnels []*tunnel
	current pages
	missing chan<- uint32 // see Gateway
}

// Add activates an SA. An outbound SA replaces its tunnel's current one, which stays in the gateway
// until Remove.
func (g *Gateway) Add(s *ipsec.SA) error {
	if err := g.AddStandby(s); err != nil {
		return err
	}
	if s.Config().Direction == ipsec.Out {
		g.SetCurrent(s)
	}
	return nil
}

// AddStandby adds an SA: packets may arrive by it. No packet leaves by an outbound SA before SetCurrent.
func (g *Gateway) AddStandby(s *ipsec.SA) error {
	c := s.Config()
	b := g.tunnels.get(c.Tunnel)
	if b == nil {
		return fmt.Errorf("add security association %q: there is no tunnel %d", c.Name, c.Tunnel)
	}
	g.devices.add(s)
	if c.Direction == ipsec.In {
		err := g.sad.Add(s)
		if err == nil {
			b.uses++
			b.countTransport(s, 1)
			g.devices.addSPI(s)
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

// SetCurrent makes an outbound SA the current one of its tunnel. It must be in the gateway.
func (g *Gateway) SetCurrent(s *ipsec.SA) {
	if old := g.tunnels.current.of(s.Tunnel()).Swap(s); old != nil && old != s {
		old.EndLoan()
	}
}

// Remove removes an SA: no packet finds it from now on, and the newest remaining SA of its tunnel
// becomes the current one. Workers finish the packets that they have begun, so rekeying loses
// nothing. The keys stay until Zero.
func (g *Gateway) Remove(s *ipsec.SA) {
	c := s.Config()
	if c.Direction == ipsec.In {
		if g.sad.Remove(s) {
			g.devices.removeSPI(s)
			b := g.tunnels.get(c.Tunnel)
			b.past[ipsec.In].add(s)
			b.countTransport(s, -1)
			g.tunnels.leave(c.Tunnel)
		}
	} else {
		g.paths.remove(s)
		b := g.tunnels.get(c.Tunnel)
		if i := slices.Index(b.out, s); i >= 0 {
			b.out = slices.Delete(b.out, i, i+1)
			b.past[ipsec.Out].add(s)
			g.tunnels.leave(c.Tunnel)
		}
		var newest *ipsec.SA
		if n := len(b.out); n > 0 {
			newest = b.out[n-1]
		}
		g.tunnels.current.of(c.Tunnel).CompareAndSwap(s, newest)
		s.EndLoan()
	}
}

// All calls yield with every SA until it returns false.
func (g *Gateway) All(yield func(*ipsec.SA) bool) {
	for _, b := range g.tunnels.all {
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

// SetRules replaces all policies. In each direction the first match counts. On an error the current
// ones stay.
func (g *Gateway) SetRules(all []Rule) error {
	r, err := g.Prepare(all)
	if err != nil {
		return err
	}
	g.Enforce(r)
	return nil
}

// Prepare compiles policies for Enforce. It changes nothing.
func (g *Gateway) Prepare(all []Rule) (*Ruleset, error) {
	r := &Ruleset{all: all, missing: g.Missing, tunnels: g.tunnels.all, current: g.tunnels.current}
	lists := map[uint32]*policies{0: {}}
	for i, rule := range all {
		if rule.Action == policy.Protect && g.tunnels.get(rule.Target) == nil {
			return nil, fmt.Errorf("policy %d (%v): there is no tunnel %d", i+1, &rule.Policy, rule.Target)
		}
		if lists[rule.IfID] == nil {
			lists[rule.IfID] = &policies{}
		}
		list := &lists[rule.IfID][rule.Direction]
		*list = append(*list, rule.Policy)
	}
	main, err := lists[0].build(nil)
	if err != nil {
		return nil, err
	}
	delete(lists, 0)
	r.in, r.out = main.in, main.out
	if r.byIfID, err = buildAll(lists, g.lookup().byIfID); err != nil {
		return nil, err
	}
	return r, nil
}

// Enforce activates a prepared Ruleset, once. It cannot fail.
func (g *Gateway) Enforce(r *Ruleset) {
	for _, rule := range r.all {
		if rule.Action == policy.Protect {
			g.tunnels.get(rule.Target).uses++
		}
	}
	before := g.Rules()
	g.devices.enforce(r, g.rules.Store)
	for _, rule := range before {
		if rule.Action == policy.Protect {
			g.tunnels.leave(rule.Target)
		}
	}
}

// Outbound returns the active outbound policies.
func (g *Gateway) Outbound() *policy.Table { return g.lookup().out }

// Rules returns the active policies, in their order.
func (g *Gateway) Rules() []Rule {
	if r := g.rules.Load(); r != nil {
		return r.all
	}
	return nil
}
