package service

import (
	"errors"
	"net/netip"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/pathmtu"
	"github.com/warproute/warproute/control/vmgenid"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/sequences"
)

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
	s.warnOfVolatileState()
	s.ipsec.gateway.ClampMSS = s.cfg.IPsec.MSSClamp
	s.ipsec.gateway.FragmentAfter = s.cfg.IPsec.Fragment == config.FragmentAfter
	s.ipsec.gateway.StrictErrors = s.cfg.IPsec.ICMP == config.ICMPStrict
	if s.cfg.IPsec.PathMTU == config.PathMTULearn {
		if s.paths, err = pathmtu.Watch(s.learn); err != nil {
			return err
		}
	}
	if s.copies, err = vmgenid.Watch(func() { s.renewNonces("the virtual machine was restored or cloned") }); err != nil {
		return err
	}
	s.ticking = make(chan struct{})
	s.ticked.Go(s.tick)
	s.ticked.Go(s.keepState)
	return nil
}

// warnOfVolatileState warns of a state directory that does not outlive the host's memory
// or a container.
func (s *Service) warnOfVolatileState() {
	if s.ipsec.store == nil {
		return
	}
	if fs := s.ipsec.store.Volatile(); fs != "" {
		s.log.Warn("the state of security associations will be lost: peers then refuse packets", "dir", s.cfg.IPsec.State, "filesystem", fs,
			"hint", "set ipsec.state to a directory on a disk, in a container on a volume")
	}
}

// learn has the gateway judge an error about a packet that did not fit its path.
func (s *Service) learn(t gateway.TooBig) {
	if mtu, changed := s.ipsec.gateway.Learn(t, batch.Clock()); changed {
		s.fib.Retry() // engines compute again what fits
		s.log.Info("path MTU to another gateway lowered", "gateway", t.Dst, "mtu", mtu, "reported", t.MTU, "router", t.From)
	}
}

// tick does every second what IPsec needs and what never waits for the disk.
func (s *Service) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var step clockStep
	for {
		select {
		case <-s.ticking:
			return
		case <-ticker.C:
			s.ipsec.gateway.Clock.Set(batch.Clock()) // ages go on without packets, too
			if by := step.by(clocks()); by != 0 {
				s.renewNonces("the clock was set", "by", by)
			}
			if s.ipsec.gateway.TickPaths(batch.Clock()) {
				s.fib.Retry()
			}
		}
	}
}

// keepState keeps what IPsec has on the disk up to date, and ends what the disk is to know
// of. While the disk hangs it waits: associations then send until the numbers end that they
// had before, and no longer.
func (s *Service) keepState() {
	ticker, noting := time.NewTicker(time.Second), time.NewTicker(sequences.NoteEvery)
	defer ticker.Stop()
	defer noting.Stop()
	for {
		select {
		case <-s.ticking:
			return
		case <-noting.C:
			s.ipsec.keeping.Lock()
			s.ipsec.note()
			s.ipsec.keeping.Unlock()
		case <-ticker.C:
			s.ipsec.keeping.Lock()
			err := s.ipsec.tick()
			old, expired := s.ipsec.old()
			s.ipsec.keeping.Unlock()
			for _, name := range old {
				s.log.Warn("a security association has reached its soft lifetime: replace it", "sa", name)
			}
			for _, name := range expired {
				s.log.Error("a security association's lifetime is over, and it refuses packets: give it a new key, also at the peer, and reload", "sa", name)
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
	s.ipsec.keeping.Lock()
	defer s.ipsec.keeping.Unlock()
	s.ipsec.later = append(s.ipsec.later, later{s.fib.Passed(), func() { go f() }})
}

// withGateway calls f while nobody changes the gateway.
func (s *Service) withGateway(f func(*gateway.Gateway)) {
	switch {
	case s.ipsec == nil:
	case s.xfrm != nil:
		s.xfrm.Do(func() { f(s.ipsec.gateway) })
	default:
		s.ipsec.mu.Lock()
		defer s.ipsec.mu.Unlock()
		f(s.ipsec.gateway)
	}
}

// stopIPsec is for when no worker runs any more.
func (s *Service) stopIPsec() error {
	var errs []error
	if s.paths != nil {
		s.paths.Close()
	}
	if s.copies != nil {
		s.copies.Close()
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
