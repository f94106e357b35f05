package service

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/ethtool"
)

// portGone is told that a port's interface was deleted, or moved to another network
// namespace. Packets to it are dropped as port_down.
func (s *Service) portGone(port int) {
	s.log.Error("the port's interface is gone", "port", s.ports.Ports[port].Name)
}

// portBack is asked whether an interface of the name of a port that is gone is the
// port from now on. The other ports go on undisturbed.
func (s *Service) portBack(port, ifindex int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports.Ports[port]
	if err := p.Reopen(); err != nil {
		s.log.Error("an interface of the port's name is back, but cannot take its place; mend it and set it down and up, or restart the router",
			"port", p.Name, "index", ifindex, "error", err)
		return false
	}
	s.log.Info("the port's interface is back", "port", p.Name, "index", ifindex)
	if s.addresses != nil {
		s.addresses.Replace(port, ifindex)
	}
	if len(s.unthread) > 0 { // gives the new one back, too: it goes by the name
		if _, err := s.threadPort(p); err != nil {
			s.log.Error("the kernel receives where it likes again", "port", p.Name, "error", err)
		}
	}
	return true
}

// portLent leaves what a port receives to Linux when its interface was put into a VRF, bond
// or team, and takes it again when it was taken out. By the main table, which is all that
// the router has, packets would get out of the VRF; a bond receives in place of its members.
func (s *Service) portLent(port int, lent bool) {
	p := s.ports.Ports[port]
	if !lent {
		if err := p.Recall(); err != nil {
			s.log.Error("Linux keeps the frames of a port that has left its VRF, bond or team", "port", p.Name, "error", err)
			return
		}
		s.log.Info("the port has left its VRF, bond or team: the router forwards what it receives", "port", p.Name)
		return
	}
	if err := p.Lend(); err != nil {
		s.log.Error("the port was put into a VRF, bond or team, and the router still takes what it receives", "port", p.Name, "error", err)
		return
	}
	s.log.Error("the port was put into a VRF, bond or team: Linux has all that it receives, and nothing is sent by it",
		"port", p.Name, "hint", fmt.Sprintf("ip link set %s nomaster", p.Name))
}

// watchQueues tells of ports that have got more queues than there are sockets: what
// arrives on the others is dropped as no_socket. Fewer Linux does not permit.
func (s *Service) watchQueues() {
	told := map[string]int{}
	for tick := time.NewTicker(queuesEvery); ; {
		select {
		case <-s.ending:
			tick.Stop()
			return
		case <-tick.C:
		}
		for _, p := range s.ports.Ports {
			n, _, err := ethtool.Queues(p.Name)
			if err != nil || n == told[p.Name] {
				continue // of a port that is gone we have told
			}
			told[p.Name] = n
			if sockets := s.queues[p.Name]; n > sockets {
				s.log.Error("the port has more queues than when the router started; frames that arrive on the others are dropped as no_socket",
					"port", p.Name, "queues", n, "sockets", sockets, "mend", fmt.Sprintf("restart the router, or ethtool -L %s combined %d (rx %d of a veth)", p.Name, sockets, sockets))
			}
		}
	}
}

const queuesEvery = time.Second

type link struct {
	mac fib.MAC
	mtu int
	up  bool
}

// portChanged is told by the mirror what became of a port's link.
func (s *Service) portChanged(port int, mac [6]byte, mtu int, up bool) {
	m, _ := fib.ParseMAC(mac[:])
	now := link{m, mtu, up}
	s.mu.Lock()
	before := s.links[port]
	s.links[port] = now
	s.mu.Unlock()
	if now == before {
		return
	}
	name := s.ports.Ports[port].Name
	s.log.Info("port changed", "port", name, "up", up, "mtu", mtu, "mac", m)
	s.warnOfMTU(name, mtu)
	if err := s.ports.Ports[port].SetMAC(mac); err != nil {
		s.log.Error("frames to the port's new address will go to Linux", "port", name, "error", err)
	}
}
