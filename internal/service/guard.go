package service

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/guard"
)

// startGuard keeps Linux from forwarding from and to the ports of a gateway, before Linux can
// receive anything for it, and until `warproute release`. Of other routers it releases the
// ports that a gateway has left.
func (s *Service) startGuard() (err error) {
	var names []string
	for _, p := range s.cfg.Ports {
		names = append(names, p.Interface)
	}
	drop := s.cfg.Protects() && s.cfg.IPsec.LinuxForwarding == config.LinuxForwardingDrop
	if !drop {
		if err := s.releasePorts(names); err != nil {
			return err
		}
	}
	if !s.cfg.Protects() {
		return nil
	}
	if s.guard, err = guard.Watch(names, drop, s.log); err != nil {
		return fmt.Errorf("keep Linux from forwarding past the policies: %w", err)
	}
	if drop {
		s.log.Info("linux forwards nothing from or to the ports until `warproute release`", "table", guard.TableName)
	}
	return nil
}

// releasePorts lets Linux forward again from and to ports that a gateway has left.
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
	if err != nil || len(guarded) == 0 {
		return nil // without nf_tables
	}
	if err := table.Release(names...); err != nil {
		return err
	}
	left, err := table.Guarded()
	if err == nil && len(left) < len(guarded) {
		s.log.Warn("a gateway had closed the ports to Linux's forwarding; this router protects nothing, so they are released", "ports", fmt.Sprint(names))
	}
	return err
}
