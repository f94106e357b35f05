package service

import (
	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/netdev"
)

// openSet opens the ports, and reports what that did to their links and which mode each got.
// Drivers of hardware stop and start the NIC when an XDP program or a zero-copy socket comes.
func (s *Service) openSet(cfg afxdp.Config) (*afxdp.Set, error) {
	before := map[string]netdev.Carrier{}
	for _, p := range cfg.Ports {
		if c, err := netdev.CarrierOf(p.Interface); err == nil { // that it cannot be read, Open says better
			before[p.Interface] = c
		}
	}
	set, err := afxdp.Open(cfg)
	if err != nil {
		return nil, err
	}
	for _, p := range set.Ports {
		if p.Mode == afxdp.Generic && p.ModeReason != "" {
			s.log.Warn("port open", "port", p.Name, "mode", p.Mode, "reason", p.ModeReason)
		} else {
			s.log.Info("port open", "port", p.Name, "mode", p.Mode, "reason", p.ModeReason)
		}
		if now, err := netdev.CarrierOf(p.Name); err == nil && before[p.Name].Reset(now) {
			s.log.Warn("the driver reset the link to attach the XDP program", "port", p.Name, "up", now.Up,
				"hint", "wait some seconds for the carrier, and again when the router stops; connected switches may wait longer (spanning tree)")
		}
	}
	return set, nil
}
