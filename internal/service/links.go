package service

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/netdev"
)

// link is the state of a port's link.
type link struct {
	mac fib.MAC
	mtu int
	up  bool
}

func (s *Service) startMirror() (err error) {
	var ports []mirror.Port
	for i, p := range s.ports.all() {
		ports = append(ports, mirror.Port{Name: p.Name, Ifindex: p.Ifindex, Bond: s.bondOf(i)})
	}
	ports = append(ports, make([]mirror.Port, len(s.ports.configured)-len(ports))...)
	hooks := mirror.Hooks{
		AddLocal:       s.ports.addLocal,
		DeleteLocal:    s.ports.deleteLocal,
		PortChanged:    s.portChanged,
		PortGone:       s.portGone,
		PortBack:       s.portBack,
		PortPaused:     s.portEnslaved,
		PortAdded:      s.vlanAdded,
		PortRenamed:    s.vlanRenamed,
		LinksChanged:   s.wakePorts,
		PortDeleted:    s.vlanDeleted,
		MACAdded:       s.macAdded,
		MembersChanged: s.membersChanged,
		MACDeleted:     s.macDeleted,
		Own:            s.cfg.IPsec.Interface,
		VRFs:           s.ipsec == nil,
		Exits:          s.exit != nil,
	}
	if s.exit != nil {
		hooks.ExitInterface = s.exit.Name()
	}
	if s.hasTunnels() {
		hooks.Tunnels = s.setTunnels
	}
	if s.mirror, err = mirror.Start(s.fib, ports, hooks, s.log); err != nil {
		return err
	}
	s.closers.push("stop following Linux's routes", s.mirror.Close)
	s.logStarted()
	return nil
}

// portGone handles the removal of a port's interface. Packets to it are dropped as port_down.
func (s *Service) portGone(port int) {
	s.ports.mu.Lock()
	p := s.ports.configured[port]
	s.ports.mu.Unlock()
	if !p.matched { // a port of a pattern is removed
		s.log.Error("port interface removed", "port", p.Interface)
	}
}

// portBack reopens a port on an interface with the same name and reports success. The other
// ports are not affected.
func (s *Service) portBack(port, ifindex int) bool {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	p := s.ports.port(port)
	if p == nil || s.ports.configured[port].matched {
		return false // the new interface is another port
	}
	if err := p.Reopen(); err != nil {
		s.log.Error("port not reopened on the new interface", "port", p.Name, "index", ifindex, "err", err,
			"hint", "fix the cause and set the interface down and up, or restart the router")
		return false
	}
	s.log.Info("port reopened", "port", p.Name, "index", ifindex)
	if s.ports.addresses != nil {
		s.ports.addresses.Replace(port, ifindex)
	}
	if len(s.ports.restoreNAPI) > 0 { // its restore function goes by the name and covers this one
		if _, err := s.threadPort(p); err != nil {
			s.log.Error("threaded NAPI disabled, softirqs may run on any core", "port", p.Name, "err", err)
		}
	}
	return true
}

// portEnslaved pauses a port whose interface has joined a bond or team, or on a gateway a VRF, and resumes it
// when the interface has left. A gateway only has the main table, which does not apply
// to a VRF; a bond receives in place of its members.
func (s *Service) portEnslaved(port int, enslaved bool) {
	p := s.ports.port(port)
	if p == nil {
		return
	}
	if !enslaved {
		if err := p.Resume(); err != nil {
			s.log.Error("port not resumed after it left its VRF, bond or team", "port", p.Name, "err", err)
			return
		}
		s.log.Info("port resumed after it left its VRF, bond or team", "port", p.Name)
		return
	}
	if err := p.Pause(); err != nil {
		s.log.Error("port not paused though it joined a VRF, bond or team", "port", p.Name, "err", err)
		return
	}
	s.log.Error("port paused, its interface joined a VRF, bond or team", "port", p.Name, "hint", fmt.Sprintf("ip link set %s nomaster", p.Name))
}

// portChanged handles a new state of a port's link.
func (s *Service) portChanged(port int, mac [6]byte, mtu int, up bool) {
	m, _ := fib.ParseMAC(mac[:])
	now := link{m, mtu, up}
	if port >= len(s.ports.configured) {
		s.vlanChanged(port, mac, now)
		return
	}
	s.ports.mu.Lock()
	before := s.ports.links[port]
	s.ports.links[port] = now
	s.ports.mu.Unlock()
	p := s.ports.port(port)
	if now == before || p == nil {
		return
	}
	name := p.Name
	s.log.Info("port changed", "port", name, "up", up, "mtu", mtu, "mac", m)
	s.warnAboutMTU(name, mtu)
	if err := p.SetMAC(mac); err != nil {
		s.log.Error("port MAC not set, frames to the new address go to Linux", "port", name, "err", err)
	}
}

// checkQueues logs ports with more queues than sockets: frames on the others are dropped as
// no_socket. Linux does not permit fewer queues.
func (s *Service) checkQueues() func(time.Time) {
	last := map[string]int{}
	return func(time.Time) {
		for _, p := range s.ports.all() {
			if p == nil {
				continue
			}
			n, _, err := netdev.Queues(p.Name)
			if err != nil || n == last[p.Name] {
				continue // portGone logs a missing interface
			}
			last[p.Name] = n
			if sockets := s.ports.numSockets(p.Name); n > sockets {
				s.log.Error("port has more queues than sockets, frames on the others are dropped as no_socket", "port", p.Name, "queues", n, "sockets", sockets,
					"hint", fmt.Sprintf("restart the router, or ethtool -L %s combined %d (rx %d of a veth)", p.Name, sockets, sockets))
			}
		}
	}
}
