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
	name := s.cfg.IPsec.Interface // a reload replaces the configuration, but not this
	s.tun, err = tun.Open(name, func(a netip.Addr) bool { return s.answersBy(name, a) })
	return err
}

// answersBy reports whether what Linux sends to an address goes to an interface. If not,
// Linux would answer in clear what came out of a tunnel.
func (s *Service) answersBy(name string, a netip.Addr) bool {
	route, ok := s.mirror.Lookup(a)
	for _, p := range route.Paths {
		ok = ok && p.Dev == name
	}
	return ok && len(route.Paths) > 0
}

// addLocal and deleteLocal are told by the mirror which addresses are Linux's.
func (s *Service) addLocal(a netip.Addr) error {
	s.mu.Lock()
	s.locals[a] = true
	s.mu.Unlock()
	return s.ports.AddLocal(a)
}

func (s *Service) deleteLocal(a netip.Addr) error {
	s.mu.Lock()
	delete(s.locals, a)
	s.mu.Unlock()
	return s.ports.DeleteLocal(a)
}
