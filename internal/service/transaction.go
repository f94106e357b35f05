package service

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/sequences"
)

// transaction replaces the SAs and policies of one configuration by those of another. Those
// that are equal in both are not touched.
//
//	prepare   create the new SAs, reserve their sequence numbers; everything that can fail
//	commit    install new SAs, then the policies, then remove old SAs
//
// So policies refer to installed SAs at any time. After a change of SPI, packets with the old
// SPI are received for drainTime.
type transaction struct {
	p     *ipsecGateway
	sas   map[string]*configuredSA // all of the new configuration, by name
	added []*configuredSA
	rules *gateway.Ruleset
}

// drainTime exceeds the time that packets with an old SPI are in flight.
const drainTime = 2 * time.Second

// apply makes all SAs and policies of cfg active, or none. It overwrites the keys of cfg.
func (p *ipsecGateway) apply(cfg *config.IPsec) error {
	t, err := p.prepare(cfg)
	if err != nil {
		return err
	}
	t.commit()
	return nil
}

// prepare starts a transaction, to be committed or aborted. It does not affect packets. It
// overwrites the keys of cfg.
func (p *ipsecGateway) prepare(cfg *config.IPsec) (*transaction, error) {
	defer cfg.Zero()
	p.gateway.Clock.Set(batch.Clock()) // lifetimes begin now, not with the last packet
	p.waitQuiescent()
	t := &transaction{p: p, sas: map[string]*configuredSA{}}
	p.prepared = true
	if err := t.prepare(cfg); err != nil {
		return nil, errors.Join(err, t.abort())
	}
	return t, nil
}

func (t *transaction) prepare(cfg *config.IPsec) error {
	p := t.p
	var sent, received []sequences.Association
	for i := range cfg.SAs {
		c := &cfg.SAs[i]
		if old := p.sas[c.Name]; old != nil && old.config.Equal(c) {
			t.sas[c.Name] = old
			continue
		}
		a, err := p.newSA(c)
		if err != nil {
			return err
		}
		t.sas[c.Name], t.added = a, append(t.added, a)
		if a.inbound() {
			received = append(received, a.numbers())
		} else {
			sent = append(sent, a.numbers())
		}
	}
	if err := p.store.Keep(sent...); err != nil {
		return fmt.Errorf("reserve the sequence numbers of %d SAs: %w", len(sent), err)
	}
	p.store.Receive(received...)
	if err := p.store.Live(append(sent, received...)...); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	t.rules, err = p.gateway.Prepare(p.rules(cfg.Policies))
	return err
}

// abort destroys the new SAs, which no worker has seen.
func (t *transaction) abort() error {
	t.p.prepared = false
	return t.p.destroyUnused(t.added)
}

// commit cannot fail.
func (t *transaction) commit() {
	p := t.p
	p.prepared = false
	before := append(slices.Collect(maps.Values(p.sas)), p.draining...)
	rekeyed := rekeyedFrom(t.added, before, t.sas)
	p.sas = t.sas
	p.mu.Lock() // readers see all of the changes or none
	waiting := t.install(rekeyed)
	p.gateway.Enforce(t.rules)
	removed, predecessors := t.remove(before)
	for a, old := range rekeyed {
		predecessors[a.inboundID()] = old
	}
	p.replace(waiting, predecessors)
	p.mu.Unlock()
	p.destroy(removed)
	if len(waiting) > 0 {
		p.waitQuiescent()
	}
	p.drainEnd = time.Now().Add(drainTime)
}

// install adds the new SAs to the gateway. It returns inbound ones that wait for another: for
// the one with the same ID, or the one that they are rekeyed from. The caller holds mu.
func (t *transaction) install(rekeyed map[*configuredSA]*configuredSA) (waiting []*configuredSA) {
	for _, a := range t.added {
		if a.inbound() && (rekeyed[a] != nil || t.p.gateway.Inbound(a.config.SPI, a.config.Dst) != nil) {
			waiting = append(waiting, a)
		} else {
			t.p.install(a)
		}
	}
	return waiting
}

// remove removes the SAs that the new configuration lacks or changes, unless they drain. It
// also returns the removed inbound SAs by their IDs. The caller holds mu.
func (t *transaction) remove(before []*configuredSA) (removed []*configuredSA, inbound map[inboundID]*configuredSA) {
	p, inbound, taken := t.p, map[inboundID]*configuredSA{}, map[inboundID]bool{}
	for _, a := range t.added {
		if a.inbound() {
			taken[a.inboundID()] = true
		}
	}
	p.draining = nil
	for _, a := range before {
		now := p.sas[a.config.Name]
		switch {
		case now == a:
		case a.inbound() && now != nil && now.inbound() && !taken[a.inboundID()] && !a.sameSender(now):
			p.draining = append(p.draining, a)
		default:
			removed = append(removed, a)
			if a.inbound() {
				inbound[a.inboundID()] = a
			}
		}
	}
	for _, a := range removed {
		p.gateway.Remove(a.SA)
	}
	return removed, inbound
}

// rekeyedFrom returns, for added inbound SAs, the SA of before with the same sender and the
// highest sequence number, at whichever address.
func rekeyedFrom(added, before []*configuredSA, after map[string]*configuredSA) map[*configuredSA]*configuredSA {
	bySPI := map[uint32][]*configuredSA{}
	for _, a := range before {
		if a.inbound() && after[a.config.Name] != a {
			bySPI[a.config.SPI] = append(bySPI[a.config.SPI], a)
		}
	}
	rekeyed := map[*configuredSA]*configuredSA{}
	for _, a := range added {
		for _, old := range bySPI[a.config.SPI] {
			if a.inbound() && a.sameSender(old) && (rekeyed[a] == nil || old.Sequence() > rekeyed[a].Sequence()) {
				rekeyed[a] = old
			}
		}
	}
	return rekeyed
}

// install adds an SA to the gateway, which has none with its ID. The caller holds mu.
func (p *ipsecGateway) install(a *configuredSA) {
	if err := p.gateway.Add(a.SA); err != nil {
		p.failed = append(p.failed, err)
	}
}

// replace installs inbound SAs in place of removed ones. If the sender is the same, the
// replacement continues the predecessor's replay window, so it waits until no worker receives
// by the predecessor. The caller holds mu.
func (p *ipsecGateway) replace(list []*configuredSA, predecessors map[inboundID]*configuredSA) {
	var replacements []*configuredSA
	for _, a := range list {
		if old := predecessors[a.inboundID()]; old == nil || !a.sameSender(old) {
			p.install(a)
		} else {
			replacements = append(replacements, a)
		}
	}
	if len(replacements) == 0 {
		return
	}
	p.afterQuiescence(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range replacements {
			if p.sas[a.config.Name] == a { // not removed meanwhile
				a.Skip(predecessors[a.inboundID()].Sequence())
				p.install(a)
			}
		}
	})
}

// destroy destroys SAs that were removed from the gateway when no worker uses them any more.
func (p *ipsecGateway) destroy(list []*configuredSA) {
	if len(list) == 0 {
		return
	}
	p.afterQuiescence(func() {
		if err := p.destroyUnused(list); err != nil {
			p.failed = append(p.failed, err)
		}
	})
}

// destroyUnused overwrites the keys of SAs and saves their sequence numbers.
func (p *ipsecGateway) destroyUnused(list []*configuredSA) error {
	var sas []*ipsec.SA
	for _, a := range list {
		a.Zero()
		sas = append(sas, a.SA)
	}
	return p.store.Release(sas...)
}

// endDraining removes the draining SAs after drainTime.
func (p *ipsecGateway) endDraining() {
	if time.Now().Before(p.drainEnd) {
		return
	}
	p.mu.Lock()
	for _, a := range p.draining {
		p.gateway.Remove(a.SA)
	}
	p.mu.Unlock()
	p.destroy(p.draining)
	p.draining = nil
}
