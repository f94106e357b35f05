package service

import (
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/tun"
)

// exitInterface is the name of the interface on which Linux forwards. Linux replaces %d by a free number.
const exitInterface = "warproute%d"

// exitMTU is the MTU in bytes of the interface on which Linux forwards, for packets that Linux routes to it. It
// does not limit packets to Linux.
const exitMTU = 1500

// openTunnelInterface creates the interface by which Linux itself reaches tunnels, if configured.
func (s *Service) openTunnelInterface() (err error) {
	if s.ipsec == nil || s.cfg.IPsec.Interface == "" {
		return nil
	}
	if s.inherits() {
		s.tun, err = tun.Inherit(s.cfg.IPsec.Interface, s.from.tunnel, s.hostOptions(tun.MinMTU))
	} else {
		s.tun, err = tun.Open(s.cfg.IPsec.Interface, s.hostOptions(tun.MinMTU))
	}
	if err == nil {
		s.closers.push("close the tunnel interface", s.tun.Close)
	}
	return err
}

// openExit creates the interface on which Linux forwards packets to interfaces that are not ports. By default,
// the router drops such packets on a host where it cannot.
func (s *Service) openExit() (err error) {
	if !s.cfg.ExitsByLinux() {
		return nil
	}
	o := s.hostOptions(exitMTU)
	o.Forward = true
	if s.inherits() && s.from.offer.Exit.Name != "" {
		s.exit, err = tun.Inherit(s.from.offer.Exit.Name, s.from.exit, o)
	} else {
		s.exit, err = tun.Open(exitInterface, o)
	}
	if err == nil {
		s.closers.push("close the interface to Linux", s.exit.Close)
		return nil
	}
	s.exit = nil
	if s.cfg.Exit.Linux == config.ExitOn {
		return err
	}
	s.log.Warn("packets for interfaces that are not ports are dropped as no_port", "err", err, "hint", "load the module tun; give a container /dev/net/tun and write access to /proc/sys/net; or set exit.linux: off")
	return nil
}

func (s *Service) hostOptions(mtu int) tun.Options {
	return tun.Options{Queues: len(s.memory.workers), MTU: mtu, Burst: s.memory.room}
}

// checkExit restores the settings of the interface, since a write to net.ipv4.ip_forward changes those of all
// interfaces. It logs an error once.
func (s *Service) checkExit() func(time.Time) {
	failed := false
	return func(time.Time) {
		if s.exit == nil {
			return
		}
		err := s.exit.Configure()
		if err != nil && !failed {
			s.log.Error("settings of the interface to Linux not restored", "err", err, "hint", "restart the router if the interface "+s.exit.Name()+" was deleted")
		}
		failed = err != nil
	}
}
