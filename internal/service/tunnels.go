package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/divert"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/ipsec/gateway"
)

// hostTunnels are the XFRM interfaces of Linux by which route-based tunnels are reached. Packets of the host on them
// are diverted to the tunnel interface of the router (ipsec.interface), or dropped without one.
type hostTunnels struct {
	mu       sync.Mutex
	all      []mirror.Tunnel
	diverter *divert.Diverter
	diverted map[int]int // index of the interface that packets are diverted to, by index of the XFRM interface
	failed   map[int]bool
	active   []gateway.Interface
	warned   bool // of strict rp_filter
}

// hasTunnels reports whether routes over XFRM interfaces lead to the gateway's tunnels.
func (s *Service) hasTunnels() bool {
	return s.ipsec != nil && s.cfg.IPsec.Source == config.SourceXFRM
}

// openTunnels prepares for XFRM interfaces, which startMirror reports.
func (s *Service) openTunnels() (err error) {
	if !s.hasTunnels() {
		return nil
	}
	t := &s.tunnels
	t.diverted, t.failed = map[int]int{}, map[int]bool{}
	if t.diverter, err = divert.New(); err == nil {
		s.closers.push("leave XFRM interfaces to Linux", s.closeTunnels)
	}
	return err
}

// closeTunnels has Linux transmit packets on XFRM interfaces itself again.
func (s *Service) closeTunnels() error {
	t := &s.tunnels
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	if !s.inherits() && !s.handing.Load() { // else another process has the tunnels
		for index := range t.diverted {
			errs = append(errs, t.diverter.Clear(index))
		}
	}
	t.diverted = nil
	return errors.Join(append(errs, t.diverter.Close())...)
}

// setTunnels replaces the XFRM interfaces. The mirror calls it.
func (s *Service) setTunnels(all []mirror.Tunnel) {
	s.tunnels.mu.Lock()
	s.tunnels.all = all
	s.tunnels.mu.Unlock()
	s.updateTunnels()
}

// updateTunnels passes the XFRM interfaces to the gateway, and diverts their packets.
func (s *Service) updateTunnels() {
	t := &s.tunnels
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.diverted == nil {
		return // no gateway, or closed
	}
	var now []gateway.Interface
	for _, x := range t.all {
		now = append(now, gateway.Interface{Name: x.Name, IfID: x.IfID, Up: x.Up})
	}
	if !slices.Equal(now, t.active) {
		t.active = now
		s.ipsec.gateway.SetInterfaces(now)
		s.fib.MarkChanged()
	}
	s.divertAll()
}

// divertAll diverts the packets of all XFRM interfaces to the tunnel interface, also if somebody has deleted an earlier
// filter. t.mu is held.
func (s *Service) divertAll() {
	t, to := &s.tunnels, 0
	if name := s.cfg.IPsec.Interface; name != "" {
		if i, err := netdev.InterfaceByName(name); err == nil {
			to = i.Index
		}
	}
	there := map[int]bool{}
	for _, x := range t.all {
		there[x.Ifindex] = true
		set := t.diverter.Set
		was, ok := t.diverted[x.Ifindex]
		if ok && was == to || s.inherits() {
			set = t.diverter.Keep
		}
		if err := set(x.Ifindex, to); err != nil {
			delete(t.diverted, x.Ifindex)
			if _, gone := net.InterfaceByIndex(x.Ifindex); gone != nil {
				continue // deleted meanwhile: setTunnels follows
			}
			if !t.failed[x.Ifindex] {
				t.failed[x.Ifindex] = true
				s.log.Error("packets of the host on an XFRM interface are not diverted, the peer may drop them as replayed", "interface", x.Name, "err", err)
			}
			continue
		}
		t.diverted[x.Ifindex] = to
		delete(t.failed, x.Ifindex)
		if to == 0 && (!ok || was != to) {
			s.log.Info("packets of the host on an XFRM interface are dropped", "interface", x.Name, "hint", "set ipsec.interface to pass them through the router")
		}
	}
	for index := range t.diverted {
		if !there[index] {
			delete(t.diverted, index)
		}
	}
	if len(t.all) > 0 && to != 0 {
		s.relaxTunnelInterface()
	}
}

// relaxTunnelInterface has Linux accept packets on the tunnel interface whose answers leave by an XFRM interface. Linux
// itself does not apply rp_filter to packets out of tunnels.
func (s *Service) relaxTunnelInterface() {
	name := s.cfg.IPsec.Interface
	mode, err := rpFilter(name)
	if err != nil || mode == fib.RPFOff {
		return
	}
	err = os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte("0"), 0)
	if mode, _ = rpFilter(name); mode != fib.RPFOff && !s.tunnels.warned {
		s.tunnels.warned = true
		s.log.Warn("linux may drop packets for the host out of XFRM interfaces", "interface", name, "reason", fmt.Sprintf("rp_filter (%v)", err),
			"hint", "sysctl net.ipv4.conf.all.rp_filter=0, and set rp_filter of each interface instead")
	}
}
