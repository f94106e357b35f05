package service

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/pathmtu"
	"github.com/warproute/warproute/control/vmgenid"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/sequences"
)

// openIPsec creates the IPsec gateway and, if SAs come from the configuration, its state.
func (s *Service) openIPsec() error {
	if !s.cfg.Protects() {
		return nil
	}
	workers, _, err := countWorkers(s.initial)
	if err != nil {
		return err
	}
	if s.cfg.IPsec.Source == config.SourceXFRM {
		s.ipsec = &ipsecGateway{gateway: &gateway.Gateway{}, passed: s.fib.Passed}
	} else if s.inherits() {
		if s.ipsec, err = newGatewayWith(&pendingStore{}, &s.cfg.IPsec, workers, s.fib.Passed); err != nil {
			return err
		}
	} else if s.ipsec, err = newIPsecGateway(&s.cfg.IPsec, workers, s.fib.Passed); err != nil {
		return err
	}
	s.fib.VLANs.LeaveTags() // before the mirror writes the tables
	s.closers.push("close IPsec", s.ipsec.close)
	s.warnAboutVolatileState()
	s.ipsec.gateway.ClampMSS = s.cfg.IPsec.MSSClamp
	s.ipsec.gateway.FragmentAfter = s.cfg.IPsec.Fragment == config.FragmentAfter
	s.ipsec.gateway.StrictErrors = s.cfg.IPsec.ICMP == config.ICMPStrict
	return nil
}

// warnAboutVolatileState logs a state directory that is lost with the host's memory or a container.
func (s *Service) warnAboutVolatileState() {
	if s.ipsec.store == nil {
		return
	}
	if fs := s.ipsec.store.Volatile(); fs != "" {
		s.log.Warn("state of SAs does not survive a restart, peers then refuse packets", "reason", s.cfg.IPsec.State+" is on "+fs,
			"hint", "set ipsec.state to a directory on a disk, in a container on a volume")
	}
}

// watchIPsec starts the goroutines of an IPsec gateway.
func (s *Service) watchIPsec() error {
	if s.ipsec == nil {
		return nil
	}
	if s.cfg.IPsec.PathMTU == config.PathMTULearn {
		paths, err := pathmtu.Watch(s.learnPathMTU)
		if err != nil {
			return err
		}
		s.closers.push("stop path MTU discovery", infallible(paths.Close))
	}
	clones, err := vmgenid.Watch(func() { s.renewNonces("the virtual machine was restored or cloned") })
	if err != nil {
		return err
	}
	s.closers.push("stop watching for VM clones", infallible(clones.Close))
	s.closers.push("stop IPsec timers", infallible(s.startIPsecTimers()))
	return nil
}

// learnPathMTU applies an ICMP error about a packet that exceeded the MTU of its path.
func (s *Service) learnPathMTU(t gateway.TooBig) {
	if mtu, changed := s.ipsec.gateway.Learn(t, batch.Clock()); changed {
		s.fib.MarkChanged() // engines compute the MTUs of tunnels again
		s.log.Info("path MTU to another gateway lowered", "gateway", t.Dst, "mtu", mtu, "reason", fmt.Sprintf("%v reported %d", t.From, t.MTU))
	}
}

// startIPsecTimers starts the periodic work of an IPsec gateway and returns a function that ends it.
func (s *Service) startIPsecTimers() (stop func()) {
	timers := &background{ending: make(chan struct{})}
	timers.every(time.Second, s.tickIPsec())
	timers.every(sequences.NoteEvery, func(time.Time) {
		s.ipsec.stateMu.Lock()
		defer s.ipsec.stateMu.Unlock()
		s.ipsec.saveReceived()
	})
	timers.every(time.Second, func(time.Time) { s.updateIPsecState() })
	return func() { close(timers.ending); timers.wg.Wait() }
}

// tickIPsec does the periodic work that never waits for the disk.
func (s *Service) tickIPsec() func(time.Time) {
	var step clockStep
	return func(time.Time) {
		s.ipsec.gateway.Clock.Set(batch.Clock()) // lifetimes pass without packets, too
		if by := step.by(clocks()); by != 0 {
			s.renewNonces(fmt.Sprintf("the clock was set by %v", by))
		}
		if s.ipsec.gateway.TickPaths(batch.Clock()) {
			s.fib.MarkChanged()
		}
	}
}

// updateIPsecState does the periodic work that the disk can block. While the disk hangs, SAs
// send until their reserved sequence numbers are used up.
func (s *Service) updateIPsecState() {
	s.ipsec.stateMu.Lock()
	err := s.ipsec.tick()
	soft, hard := s.ipsec.expired()
	s.ipsec.stateMu.Unlock()
	for _, name := range soft {
		s.log.Warn("soft lifetime expired", "sa", name, "hint", "replace the SA here and at the peer")
	}
	for _, name := range hard {
		s.log.Error("hard lifetime expired, packets of the SA are dropped", "sa", name, "hint", "give the SA a new key, also at the peer, and reload")
	}
	if err != nil {
		s.log.Error("update IPsec state", "err", err)
	}
}

// startXFRM follows Linux's SAs and policies. The ports admit no packets before they are loaded.
func (s *Service) startXFRM() (err error) {
	if s.ipsec == nil || s.cfg.IPsec.Source != config.SourceXFRM {
		return nil
	}
	begin := xfrm.Start
	if s.inherits() {
		begin = xfrm.StartPassive
	}
	s.xfrm, err = begin(s.ipsec.gateway, len(s.memory.workers), xfrm.Hooks{
		IsLocal: s.ports.isLocal, Quiescent: s.quiescent,
		Changed: s.fib.MarkChanged, // pending packets may wait for an SA
	}, s.log)
	if err == nil {
		s.closers.push("stop following Linux's SAs and policies", s.xfrm.Close)
	}
	return err
}

// quiescent calls f on its own goroutine when no worker uses unpublished state any more.
func (s *Service) quiescent(f func()) {
	s.ipsec.stateMu.Lock()
	defer s.ipsec.stateMu.Unlock()
	s.ipsec.afterQuiescence(func() { go f() })
}

// withGateway calls f while nothing changes the gateway.
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

// renewNonces draws another random nonce base, because the router's memory may exist twice.
func (s *Service) renewNonces(reason string) {
	s.ipsec.gateway.RenewNonces()
	s.log.Info("nonce base renewed", "reason", reason)
}
