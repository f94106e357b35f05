package service

import (
	"errors"
	"sync"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/sequences"
)

// protection is the IPsec of a router. Whoever calls its methods has keeping, which may be held
// while the disk is waited for; mu never is.
type protection struct {
	keeping sync.Mutex // guards all but the gateway
	mu      sync.Mutex // guards changes of the gateway against those who read them; the XFRM mirror, where there is one, has its own

	gateway *gateway.Gateway
	passed  func() func() bool // fib.FIB's
	later   []later

	// Of associations that are the configuration's.
	workers   int
	store     store
	sas       map[string]*association // by name
	lingering []*association          // see lingerFor
	lingerEnd time.Time
	preparing bool    // there is a succession to commit or to abandon
	failed    []error // to write down, since the last tick
}

// store is sequences.Store, nil where associations are Linux's.
type store interface {
	Begin(*ipsec.Nonces) error
	Keep(...sequences.Association) error
	Receive(...sequences.Association)
	Live(...sequences.Association) error
	Extend() error
	Note() error
	Release(...*ipsec.SA) error
	Volatile() string
	Close() error
}

// later is what is to be done when workers have finished what they had begun.
type later struct {
	due func() bool
	do  func()
}

type association struct {
	config config.SA
	*ipsec.SA
	expired bool // old has told
}

func newProtection(cfg *config.IPsec, workers int, passed func() func() bool) (*protection, error) {
	store, err := sequences.Open(cfg.State)
	if err != nil {
		return nil, err
	}
	p := &protection{gateway: &gateway.Gateway{}, workers: workers, store: store, sas: map[string]*association{}, passed: passed}
	if err := store.Begin(&p.gateway.Nonces); err != nil {
		return p, err
	}
	return p, p.apply(cfg)
}

// newAssociation makes an association that is not in use yet.
func (p *protection) newAssociation(c *config.SA) (*association, error) {
	p.mu.Lock()
	bundle := p.gateway.Bundle(c.Name)
	p.mu.Unlock()
	out := ipsec.Config{
		Name: c.Name, SPI: c.SPI, Src: c.Src, Dst: c.Dst, Suite: c.Suite, Key: c.Key.Bytes(), AuthKey: c.AuthKey.Bytes(),
		ESN: c.ESN, ReplayWindow: c.ReplayWindow, Lifetime: ipsec.Lifetime{Soft: limits(c.Lifetime.Soft), Hard: limits(c.Lifetime.Hard)},
		Clock: &p.gateway.Clock, Nonces: &p.gateway.Nonces, Bundle: bundle,
	}
	if c.Direction == config.DirectionIn {
		out.Direction = ipsec.In
	}
	if c.Mode == config.SATransport {
		out.Mode = ipsec.Transport
	}
	if c.Encap != (config.Encap{}) {
		out.Encap = &ipsec.Encap{SrcPort: c.Encap.SrcPort, DstPort: c.Encap.DstPort}
	}
	out.DF = map[config.DF]ipsec.DFPolicy{config.DFCopy: ipsec.CopyDF, config.DFSet: ipsec.SetDF, config.DFClear: ipsec.ClearDF}[c.DF]
	sa, err := ipsec.NewSA(out, p.workers)
	if err != nil {
		return nil, err
	}
	return &association{config: *c, SA: sa}, nil
}

// numbers is the association as its sequence numbers are kept: by what IVs repeat with, or
// without a cipher by the key of authentication.
func (a *association) numbers() sequences.Association {
	key := a.config.Key.Bytes()
	if len(key) == 0 {
		key = a.config.AuthKey.Bytes()
	}
	return sequences.Association{SA: a.SA, Key: key}
}

func limits(l config.Limits) ipsec.Limits {
	return ipsec.Limits{Packets: l.Packets, Bytes: l.Bytes, Age: time.Duration(l.Seconds) * time.Second}
}

// rules are the policies as the gateway wants them; the configuration was checked. The caller
// has mu.
func (p *protection) rules(policies []config.Policy) []gateway.Rule {
	var rules []gateway.Rule
	for _, c := range policies {
		r := gateway.Rule{Direction: ipsec.Out, Policy: policy.Policy{
			Src: c.Src, Dst: c.Dst, Protocol: c.Protocol,
			SrcPorts: policy.Ports(c.SrcPorts.First, c.SrcPorts.Last), DstPorts: policy.Ports(c.DstPorts.First, c.DstPorts.Last),
			Action: map[config.Action]policy.Action{
				config.ActionProtect: policy.Protect, config.ActionBypass: policy.Bypass, config.ActionDiscard: policy.Discard,
			}[c.Action],
		}}
		if c.Direction == config.DirectionIn {
			r.Direction = ipsec.In
		}
		if r.Action == policy.Protect {
			r.Name, r.Target = c.SA, p.gateway.Bundle(c.SA)
		}
		rules = append(rules, r)
	}
	return rules
}

// tick does what is due every second or so.
func (p *protection) tick() error {
	p.gateway.Clock.Set(batch.Clock()) // ages go on without packets, too
	p.linger()
	p.catchUp()
	errs := p.failed
	p.failed = nil
	if p.store != nil {
		errs = append(errs, p.store.Extend())
		if !p.preparing && len(p.later) == 0 { // else a bundle may be of an association that is not in the gateway yet
			p.mu.Lock()
			bundles := p.gateway.Retire()
			p.mu.Unlock()
			if len(bundles) > 0 {
				p.later = append(p.later, later{p.passed(), func() {
					p.mu.Lock()
					p.gateway.Free(bundles)
					p.mu.Unlock()
				}})
			}
		}
	}
	return errors.Join(errs...)
}

// catchUp does what has become due of what was to be done later.
func (p *protection) catchUp() {
	now := p.later
	p.later = nil
	for _, l := range now {
		if l.due() {
			l.do()
		} else {
			p.later = append(p.later, l)
		}
	}
}

// note notes what was received. It is to be called every sequences.NoteEvery.
func (p *protection) note() {
	if p.store == nil || len(p.failed) > 0 { // which is logged first
		return
	}
	if err := p.store.Note(); err != nil {
		p.failed = append(p.failed, err)
	}
}

// old returns the names of the configuration's associations that have come to be replaced
// since it was called last, and of those whose lifetimes are over.
func (p *protection) old() (soft, hard []string) {
	for name, a := range p.sas {
		if a.SoftExpired() {
			soft = append(soft, name)
		}
		if !a.expired && a.HardExpired() {
			a.expired = true
			hard = append(hard, name)
		}
	}
	return soft, hard
}

// close is for when no worker runs any more.
func (p *protection) close() error {
	for len(p.later) > 0 { // what is done may leave something for later
		now := p.later
		p.later = nil
		for _, l := range now {
			l.do()
		}
	}
	for sa := range p.gateway.All {
		sa.Zero()
	}
	if p.store == nil {
		return nil
	}
	return errors.Join(append(p.failed, p.store.Close())...)
}
