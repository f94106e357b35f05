package service

import (
	"net/netip"

	"github.com/warproute/warproute/internal/tun"
)

// openInterface makes the interface by which Linux itself reaches tunnels, if one is asked for.
func (s *Service) openInterface() (err error) {
	if s.ipsec == nil || s.cfg.IPsec.Interface == "" {
		return nil
	}
	s.tun, err = tun.Open(s.cfg.IPsec.Interface, s.answersByTunnel)
	return err
}

// answersByTunnel reports whether what Linux sends to an address goes to that interface. If
// not, Linux would answer in clear what came out of a tunnel.
func (s *Service) answersByTunnel(a netip.Addr) bool {
	route, ok := s.mirror.Lookup(a)
	for _, p := range route.Paths {
		ok = ok && p.Dev == s.cfg.IPsec.Interface
	}
	return ok && len(route.Paths) > 0
}
