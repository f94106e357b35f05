package service

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/pathmtu"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/sequences"
)

// protection is the IPsec of a router. It belongs to one goroutine at a time, but for
// the gateway, which is the XFRM mirror's where there is one.
type protection struct {
	gateway *gateway.Gateway
	passed  func() func() bool // fib.FIB's
	later   []later

	// Of associations that are the configuration's.
	workers int
	store   *sequences.Store
	sas     map[string]*association // by name
	failed  []error                 // to write down, since the last tick
}

// later is what is to be done when workers have finished what they had begun.
type later struct {
	due func() bool
	do  func()
}

type association struct {
	config config.SA
	*ipsec.SA
}

func newProtection(cfg *config.IPsec, workers int, passed func() func() bool) (*protection, error) {
	store, err := sequences.Open(cfg.State)
	if err != nil {
		return nil, err
	}
	p := &protection{gateway: &gateway.Gateway{}, workers: workers, store: store, sas: map[string]*association{}, passed: passed}
	return p, p.apply(cfg)
}

// startIPsec prepares to protect packets, if the configuration asks for it.
func (s *Service) startIPsec() error {
	if !s.cfg.Protects() {
		return nil
	}
	workers, _, err := countWorkers(s.cfg)
	if err != nil {
		return err
	}
	if s.cfg.IPsec.Source == config.SourceXFRM {
		s.ipsec = &protection{gateway: &gateway.Gateway{}, passed: s.fib.Passed}
	} else if s.ipsec, err = newProtection(&s.cfg.IPsec, workers, s.fib.Passed); err != nil {
		return err
	}
	s.ipsec.gateway.ClampMSS = s.cfg.IPsec.MSSClamp
	s.ipsec.gateway.FragmentAfter = s.cfg.IPsec.Fragment == config.FragmentAfter
	if s.paths, err = pathmtu.Watch(s.learn); err != nil {
		return err
	}
	s.ticking = make(chan struct{})
	s.ticked.Go(s.tick)
	return nil
}

// learn is told what routers say of packets that did not fit their way.
func (s *Service) learn(t gateway.TooBig) {
	if s.ipsec.gateway.Learn(t, batch.Clock()) {
		s.fib.Retry() // what fits is looked at anew
		s.log.Info("the path to another gateway is narrower than its port", "gateway", t.Dst, "mtu", t.MTU)
	}
}

// tick looks after IPsec until it ends.
func (s *Service) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.ticking:
			return
		case <-ticker.C:
			if s.ipsec.gateway.Widen(batch.Clock()) {
				s.fib.Retry()
			}
			s.mu.Lock()
			err := s.ipsec.tick()
			old := s.ipsec.old()
			s.mu.Unlock()
			for _, name := range old {
				s.log.Warn("a security association has reached its soft lifetime: replace it", "sa", name)
			}
			if err != nil {
				s.log.Error("look after IPsec", "error", err)
			}
		}
	}
}

// followXFRM has Linux's associations and policies be the gateway's. What they protect is
// dropped until they are there, because the ports let nothing in before.
func (s *Service) followXFRM(workers int) (err error) {
	if s.ipsec == nil || s.cfg.IPsec.Source != config.SourceXFRM {
		return nil
	}
	s.xfrm, err = xfrm.Start(s.ipsec.gateway, workers, xfrm.Hooks{
		IsLocal: s.isLocal, Quiescent: s.quiescent,
		Changed: s.fib.Retry, // packets may wait for an association
	}, s.log)
	return err
}

// isLocal reports whether an address is Linux's.
func (s *Service) isLocal(a netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locals[a]
}

// quiescent calls f, on a goroutine of its own, when no worker can know any more what
// was taken out of its sight.
func (s *Service) quiescent(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ipsec.later = append(s.ipsec.later, later{s.fib.Passed(), func() { go f() }})
}

// withGateway calls f while nobody changes the gateway.
func (s *Service) withGateway(f func(*gateway.Gateway)) {
	switch {
	case s.ipsec == nil:
	case s.xfrm != nil:
		s.xfrm.Do(func() { f(s.ipsec.gateway) })
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		f(s.ipsec.gateway)
	}
}

// stopIPsec is for when no worker runs any more.
func (s *Service) stopIPsec() error {
	var errs []error
	if s.paths != nil {
		s.paths.Close()
	}
	if s.xfrm != nil {
		errs = append(errs, s.xfrm.Close())
	}
	if s.ticking != nil {
		close(s.ticking)
		s.ticked.Wait()
	}
	return errors.Join(append(errs, s.ipsec.close())...)
}

// Reload makes the associations and policies those of another configuration, as a whole
// or not at all. What else differs needs a restart.
func (s *Service) Reload(cfg *config.Config) error {
	defer cfg.IPsec.Zero()
	if what := s.cfg.Differs(cfg); what != "" {
		return fmt.Errorf("reload the configuration: %s differs, which takes a restart; nothing was changed", what)
	}
	if s.cfg.IPsec.Source == config.SourceXFRM {
		return nil // Linux's are followed as they change
	}
	if s.ipsec == nil {
		if !cfg.Protects() {
			return nil
		}
		return errors.New("reload the configuration: the router was started without IPsec, and to begin with it takes a restart; nothing was changed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ipsec.apply(&cfg.IPsec); err != nil {
		return fmt.Errorf("reload the configuration: %w; nothing was changed", err)
	}
	s.fib.Retry() // packets may wait for an association
	return nil
}

// apply makes the associations and policies those of cfg, whose keys it overwrites. What
// is the same stays as it is. Either all of it is in force afterwards, or nothing has
// changed; new associations are there before policies ask for them, and old ones until
// nothing does.
func (p *protection) apply(cfg *config.IPsec) error {
	defer cfg.Zero()
	p.gateway.Clock.Set(batch.Clock()) // ages begin now, not with the last packet
	now := map[string]*association{}
	var added []*association
	fail := func(err error) error {
		for _, a := range added { // no worker has seen them
			a.Zero()
			err = errors.Join(err, p.store.Release(a.SA))
		}
		return err
	}
	for i := range cfg.SAs {
		c := &cfg.SAs[i]
		if old := p.sas[c.Name]; old != nil && old.config.Equal(c) {
			now[c.Name] = old
			continue
		}
		a, err := p.newAssociation(c)
		if err != nil {
			return fail(err)
		}
		now[c.Name], added = a, append(added, a)
	}
	rules, err := p.gateway.Prepare(p.rules(cfg.Policies))
	if err != nil {
		return fail(err)
	}

	// From here on nothing fails.
	before := p.sas
	p.sas = now
	added = slices.DeleteFunc(added, func(a *association) bool {
		if a.config.Direction == config.DirectionIn && p.gateway.Inbound(a.config.SPI, a.config.Dst) != nil {
			return false // two cannot be found by one SPI
		}
		p.use(a)
		return true
	})
	p.gateway.Enforce(rules)
	for name, a := range before {
		if now[name] != a {
			p.remove(a)
		}
	}
	for _, a := range added {
		p.succeed(a, before)
	}
	return nil
}

// use puts an association into the gateway, where its place is free.
func (p *protection) use(a *association) {
	if err := p.gateway.Add(a.SA); err != nil {
		p.failed = append(p.failed, err)
	}
}

// succeed puts an inbound association in the place of one that was removed. If it is the
// same to its sender, with the same keys, what the old one has received counts as
// received: so it waits until no worker receives by that any more.
func (p *protection) succeed(a *association, before map[string]*association) {
	var old *association
	for _, b := range before {
		if b.config.Direction == config.DirectionIn && b.config.SPI == a.config.SPI && b.config.Dst == a.config.Dst {
			old = b
		}
	}
	if old == nil || !old.config.Key.Equal(a.config.Key) || !old.config.AuthKey.Equal(a.config.AuthKey) {
		p.use(a)
		return
	}
	l := later{p.passed(), func() {
		if p.sas[a.config.Name] == a { // it has not been removed meanwhile
			a.Skip(old.Sequence())
			p.use(a)
		}
	}}
	for range 100 { // workers finish what they have begun within milliseconds
		if l.due() {
			l.do()
			return
		}
		time.Sleep(time.Millisecond)
	}
	p.later = append(p.later, l)
}

// newAssociation makes an association that is not in use yet.
func (p *protection) newAssociation(c *config.SA) (*association, error) {
	out := ipsec.Config{
		Name: c.Name, SPI: c.SPI, Src: c.Src, Dst: c.Dst, Suite: c.Suite, Key: c.Key.Bytes(), AuthKey: c.AuthKey.Bytes(),
		ESN: c.ESN, ReplayWindow: c.ReplayWindow, Lifetime: ipsec.Lifetime{Soft: limits(c.Lifetime.Soft), Hard: limits(c.Lifetime.Hard)},
		Clock: &p.gateway.Clock, Bundle: p.gateway.Bundle(c.Name),
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
	if out.Direction == ipsec.Out {
		key := out.Key
		if len(key) == 0 {
			key = out.AuthKey
		}
		if err := p.store.Keep(sa, key); err != nil {
			sa.Zero()
			return nil, fmt.Errorf("security association %q: %w", c.Name, err)
		}
	}
	return &association{*c, sa}, nil
}

func limits(l config.Limits) ipsec.Limits {
	return ipsec.Limits{Packets: l.Packets, Bytes: l.Bytes, Age: time.Duration(l.Seconds) * time.Second}
}

// rules are the policies as the gateway wants them; the configuration was checked.
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

// remove takes an association out of use. Its keys are overwritten, and its numbers
// noted, when no worker is using it any more.
func (p *protection) remove(a *association) {
	p.gateway.Remove(a.SA)
	p.later = append(p.later, later{p.passed(), func() {
		a.Zero()
		if err := p.store.Release(a.SA); err != nil {
			p.failed = append(p.failed, err)
		}
	}})
}

// tick does what is due every second or so.
func (p *protection) tick() error {
	p.gateway.Clock.Set(batch.Clock()) // ages go on without packets, too
	now := p.later
	p.later = nil
	for _, l := range now {
		if l.due() {
			l.do()
		} else {
			p.later = append(p.later, l)
		}
	}
	errs := p.failed
	p.failed = nil
	if p.store != nil {
		errs = append(errs, p.store.Extend())
	}
	return errors.Join(errs...)
}

// old returns the names of the configuration's associations that have come to be replaced
// since it was called last.
func (p *protection) old() (names []string) {
	for name, a := range p.sas {
		if a.SoftExpired() {
			names = append(names, name)
		}
	}
	return names
}

// close is for when no worker runs any more.
func (p *protection) close() error {
	for _, l := range p.later {
		l.do()
	}
	for sa := range p.gateway.All {
		sa.Zero()
	}
	if p.store == nil {
		return nil
	}
	return errors.Join(append(p.failed, p.store.Close())...)
}
