package service

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/sequences"
)

// succession is the associations and policies of another configuration, ready to follow
// those of now. What is the same in both goes on as it is.
//
//	prepare   make what is new, note its numbers; all that can fail
//	commit    put it into use, then the policies, then take out what is gone
//
// So new associations are there before policies ask for them, and old ones until nothing
// does. Packets on their way with an SPI that changes find its association for lingerFor.
type succession struct {
	p     *protection
	sas   map[string]*association // by name
	added []*association
	rules *gateway.Ruleset
}

// lingerFor is how long an inbound association that got another SPI can still be received
// by: longer than packets are on their way.
const lingerFor = 2 * time.Second

// apply makes the associations and policies those of cfg, whose keys it overwrites: all of
// them, or none.
func (p *protection) apply(cfg *config.IPsec) error {
	s, err := p.prepare(cfg)
	if err != nil {
		return err
	}
	s.commit()
	return nil
}

// prepare changes nothing that a packet meets. It overwrites the keys of cfg. What it
// returns is to be committed or abandoned.
func (p *protection) prepare(cfg *config.IPsec) (*succession, error) {
	defer cfg.Zero()
	p.gateway.Clock.Set(batch.Clock()) // ages begin now, not with the last packet
	p.settle()
	s := &succession{p: p, sas: map[string]*association{}}
	p.preparing = true
	fail := func(err error) (*succession, error) { return nil, errors.Join(err, s.abandon()) }
	var sent, received []sequences.Association
	for i := range cfg.SAs {
		c := &cfg.SAs[i]
		if old := p.sas[c.Name]; old != nil && old.config.Equal(c) {
			s.sas[c.Name] = old
			continue
		}
		a, err := p.newAssociation(c)
		if err != nil {
			return fail(err)
		}
		s.sas[c.Name], s.added = a, append(s.added, a)
		if c.Direction == config.DirectionIn {
			received = append(received, a.numbers())
		} else {
			sent = append(sent, a.numbers())
		}
	}
	if err := p.store.Keep(sent...); err != nil {
		return fail(fmt.Errorf("keep the numbers of %d security associations: %w", len(sent), err))
	}
	p.store.Receive(received...)
	if err := p.store.Live(append(sent, received...)...); err != nil {
		return fail(err)
	}
	p.mu.Lock()
	var err error
	s.rules, err = p.gateway.Prepare(p.rules(cfg.Policies))
	p.mu.Unlock()
	if err != nil {
		return fail(err)
	}
	return s, nil
}

// abandon ends what prepare has made.
func (s *succession) abandon() error {
	s.p.preparing = false
	for _, a := range s.added { // no worker has seen them
		a.Zero()
	}
	return s.p.release(s.added)
}

func (p *protection) release(list []*association) error {
	var sas []*ipsec.SA
	for _, a := range list {
		sas = append(sas, a.SA)
	}
	return p.store.Release(sas...)
}

// place is where an inbound association is found.
type place struct {
	spi uint32
	dst netip.Addr
}

func (a *association) place() place { return place{a.config.SPI, a.config.Dst} }

func (a *association) inbound() bool { return a.config.Direction == config.DirectionIn }

// commit cannot fail.
func (s *succession) commit() {
	p := s.p
	p.preparing = false
	before := append(slices.Collect(maps.Values(p.sas)), p.lingering...)
	p.sas, p.lingering = s.sas, nil
	var late []*association // that are to be where another is now, or go on with what that has received
	taken := map[place]bool{}
	moved := movedFrom(s.added, before, s.sas)
	p.mu.Lock() // readers see all of it, or nothing
	for _, a := range s.added {
		if !a.inbound() {
			p.use(a)
			continue
		}
		taken[a.place()] = true
		if p.gateway.Inbound(a.config.SPI, a.config.Dst) == nil && moved[a] == nil {
			p.use(a)
		} else {
			late = append(late, a)
		}
	}
	p.gateway.Enforce(s.rules)
	var gone []*association
	left := map[place]*association{}
	for _, a := range before {
		now := p.sas[a.config.Name]
		switch {
		case now == a:
		case a.inbound() && now != nil && now.inbound() && !taken[a.place()] && !a.sameSender(now):
			p.lingering = append(p.lingering, a)
		default:
			gone = append(gone, a)
			if a.inbound() {
				left[a.place()] = a
			}
		}
	}
	for _, a := range gone {
		p.gateway.Remove(a.SA)
	}
	for a, old := range moved {
		left[a.place()] = old
	}
	p.succeed(late, left)
	p.mu.Unlock()
	p.end(gone)
	if len(late) > 0 {
		p.settle()
	}
	p.lingerEnd = time.Now().Add(lingerFor)
}

// sameSender tells whether what one inbound association receives another would, too: all
// that is authenticated of a packet is the same.
func (a *association) sameSender(b *association) bool {
	return a.config.SPI == b.config.SPI && a.config.Key.Equal(b.config.Key) && a.config.AuthKey.Equal(b.config.AuthKey)
}

// movedFrom returns those of before whose place some that are added take at another address.
func movedFrom(added, before []*association, after map[string]*association) map[*association]*association {
	bySPI := map[uint32][]*association{}
	for _, a := range before {
		if a.inbound() && after[a.config.Name] != a {
			bySPI[a.config.SPI] = append(bySPI[a.config.SPI], a)
		}
	}
	moved := map[*association]*association{}
	for _, a := range added {
		for _, old := range bySPI[a.config.SPI] {
			if a.inbound() && a.sameSender(old) && (moved[a] == nil || old.Sequence() > moved[a].Sequence()) {
				moved[a] = old
			}
		}
	}
	return moved
}

// use puts an association into the gateway, where its place is free. The caller has mu.
func (p *protection) use(a *association) {
	if err := p.gateway.Add(a.SA); err != nil {
		p.failed = append(p.failed, err)
	}
}

// end overwrites the keys of associations that were taken out of the gateway, and notes
// their numbers, when no worker is using them any more.
func (p *protection) end(list []*association) {
	if len(list) == 0 {
		return
	}
	p.later = append(p.later, later{p.passed(), func() {
		for _, a := range list {
			a.Zero()
		}
		if err := p.release(list); err != nil {
			p.failed = append(p.failed, err)
		}
	}})
}

// succeed puts inbound associations in the places of others that were removed. If one is
// the same to its sender, with the same keys, what the old one has received counts as
// received: so it waits until no worker receives by that any more. The caller has mu.
func (p *protection) succeed(list []*association, left map[place]*association) {
	var heirs []*association
	for _, a := range list {
		if old := left[a.place()]; old == nil || !a.sameSender(old) {
			p.use(a)
		} else {
			heirs = append(heirs, a)
		}
	}
	if len(heirs) == 0 {
		return
	}
	p.later = append(p.later, later{p.passed(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range heirs {
			if p.sas[a.config.Name] == a { // it has not been removed meanwhile
				a.Skip(left[a.place()].Sequence())
				p.use(a)
			}
		}
	}})
}

// linger ends the associations that linger, when it is time.
func (p *protection) linger() {
	if time.Now().After(p.lingerEnd) {
		p.mu.Lock()
		for _, a := range p.lingering {
			p.gateway.Remove(a.SA)
		}
		p.mu.Unlock()
		p.end(p.lingering)
		p.lingering = nil
	}
}

// settle waits until workers have finished with what was taken out of use before, so that
// its numbers are noted.
func (p *protection) settle() {
	for range 1000 { // they finish what they have begun within milliseconds
		if p.catchUp(); len(p.later) == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
