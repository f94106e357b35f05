package service

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/control/netfilter"
)

// startGuard blocks Linux's forwarding from and to the ports of a gateway until `warproute
// release`, before the router attaches to them. In a router without IPsec it unblocks the ports
// that a gateway has left blocked.
func (s *Service) startGuard() (err error) {
	names, drop := s.guarded(), s.cfg.Protects() && s.cfg.IPsec.LinuxForwarding == config.LinuxForwardingDrop
	if !drop {
		if err := s.releasePorts(names); err != nil {
			return err
		}
	}
	if !s.cfg.Protects() {
		return nil
	}
	if s.guard, err = guard.Watch(names, drop, s.log); err != nil {
		return fmt.Errorf("block Linux's forwarding past the IPsec policies: %w", err)
	}
	s.closers.push("stop watching Linux's forwarding", infallible(s.guard.Close))
	if !s.inherits() {
		if err := s.guard.GuardStacked(); err != nil {
			return err
		}
	}
	s.closers.push("block Linux's forwarding of VLANs", func() error {
		if s.handing.Load() {
			return nil
		}
		return s.guard.GuardStacked()
	})
	if drop {
		s.log.Info("linux forwarding from and to the ports blocked until `warproute release`", "table", guard.TableName)
	}
	return nil
}

// guarded returns the interfaces on which a gateway blocks Linux's forwarding: the ports, and members of bonds, which
// can leave their bonds.
func (s *Service) guarded() []string {
	names := s.initial.Interfaces()
	for _, p := range s.initial.Ports {
		if p.Bond != "" {
			names = append(names, p.Interface)
		}
	}
	return names
}

// releasePorts unblocks Linux's forwarding from and to ports that a gateway has left blocked.
func (s *Service) releasePorts(names []string) error {
	table, err := guard.Open()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil // a kernel without netfilter
	}
	if err != nil {
		return err
	}
	defer table.Close()
	guarded, err := table.Guarded()
	if err != nil {
		return nil // without nf_tables
	}
	if len(guarded) == 0 {
		return table.ReleaseStacked()
	}
	if err := table.Release(names...); err != nil {
		return err
	}
	left, err := table.Guarded()
	if err == nil && len(left) < len(guarded) {
		s.log.Warn("linux forwarding unblocked on ports of an earlier IPsec gateway", "port", strings.Join(names, ", "), "reason", "the configuration has no SAs and policies, or linux_forwarding: allow")
	}
	return err
}

// warnAboutFilters logs netfilter chains that forwarded packets bypass, because the router
// receives them before Linux does.
func (s *Service) warnAboutFilters() {
	chains, err := netfilter.Forwarding()
	if err != nil {
		s.log.Warn("netfilter rules not read", "err", err)
	}
	if len(chains) == 0 {
		return
	}
	var texts []string
	for _, c := range chains {
		texts = append(texts, c.String())
	}
	s.log.Warn("forwarded packets bypass netfilter rules", "reason", strings.Join(texts, ", "),
		"hint", "filter before or behind the router, or by a gateway's policies (ipsec.policies, action: discard)")
}
