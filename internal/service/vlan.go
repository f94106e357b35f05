package service

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
)

// logicalPort is a VLAN interface of a port, or a bond, which are ports, too.
type logicalPort struct {
	mirror.LogicalPort
	link
	received bool            // of a VLAN: the XDP programs redirect its frames
	members  []mirror.Member // of a bond, as reported last
}

// isBond reports whether the port is a bond.
func (p *logicalPort) isBond() bool { return p.Parent < 0 }

// carriers returns the physical ports that carry the port's frames.
func (p *logicalPort) carriers() []int {
	if p.Members != nil {
		return p.Members
	}
	return []int{p.Physical}
}

// vlanAdded handles a VLAN interface or a bond that becomes a port. The mirror calls it, so that it may write to
// the FIB. XDP follows when the interface is up.
func (s *Service) vlanAdded(v mirror.LogicalPort) {
	p := &s.ports
	p.mu.Lock()
	if v.Parent >= 0 && !p.hasVLANs {
		p.hasVLANs = true
		defer s.warnAboutStrippedTags()
	}
	p.logical[v.Number] = &logicalPort{LogicalPort: v}
	mode := p.configured[v.Physical].ReversePath
	if p.router != nil {
		p.router.AddPort(uint16(v.Number), uint16(v.Physical))
	}
	if p.addresses != nil {
		p.addresses.Replace(v.Number, v.Ifindex)
	}
	p.mu.Unlock()
	r, err := rpfOf(config.Port{Interface: v.Name, ReversePath: mode})
	if err != nil {
		s.log.Warn("reverse path check off", "port", v.Name, "err", err)
	}
	s.fib.SetRPF(uint16(v.Number), r)
	reason := "bond of the configuration"
	if v.Parent < 0 {
		s.receiveAsBond(v.Number, v.Members)
	} else {
		reason = fmt.Sprintf("VLAN interface of port %s, %v", p.nameOf(v.Parent), v.Tag)
	}
	s.logLogical()("port added", "port", v.Name, "reason", reason)
}

// loggedAtStart is the number of logical ports at the start up to which each is logged. journald drops lines of a
// service after 10,000 in 30 seconds.
const loggedAtStart = 64

// logLogical returns the function that logs changes of logical ports, at the start those of many at level debug.
func (s *Service) logLogical() func(message string, keys ...any) {
	if s.ports.manyAtStart.Load() {
		return s.log.Debug
	}
	return s.log.Info
}

// logStarted logs the logical ports of the start that were not logged.
func (s *Service) logStarted() {
	if !s.ports.manyAtStart.Swap(false) {
		return
	}
	s.ports.mu.Lock()
	n := len(s.ports.logical)
	s.ports.mu.Unlock()
	s.log.Info("ports added", "reason", fmt.Sprintf("%d VLAN interfaces of ports, and bonds", n), "hint", "set log.level to debug to list them")
}

// addVLANs adds the VLANs that the mirror has found to the workers.
func (s *Service) addVLANs() {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	s.ports.router = s.router
	for number, p := range s.ports.logical {
		s.router.AddPort(uint16(number), uint16(p.Physical))
	}
}

// vlanChanged handles a new state of a VLAN. Frames of a VLAN that is down go to Linux, which drops them.
func (s *Service) vlanChanged(number int, mac [6]byte, now link) {
	s.ports.mu.Lock()
	p := s.ports.logical[number]
	changed := p.link != now
	p.link = now
	s.ports.mu.Unlock()
	if !changed {
		return
	}
	s.logLogical()("port changed", "port", p.Name, "up", now.up, "mtu", now.mtu, "mac", now.mac)
	if p.isBond() {
		s.warnAboutMTU(p.Name, now.mtu)
		return
	}
	if !now.up {
		s.stopVLAN(p)
		return
	}
	if s.receiveVLAN(p, p.carriers()) {
		p.received = true
	}
}

// receiveVLAN has the XDP programs of physical ports redirect the frames of a VLAN, and reports success.
func (s *Service) receiveVLAN(p *logicalPort, ports []int) bool {
	for _, physical := range ports {
		if err := s.ports.SetVLAN(physical, vlanKey(p.LogicalPort), uint16(p.Number), p.mac.Bytes()); err != nil {
			s.log.Error("port not received, frames of the VLAN go to Linux", "port", p.Name, "err", err)
			return false
		}
	}
	return true
}

// stopVLAN ends the redirection of a VLAN's frames. Only the mirror's goroutine calls it.
func (s *Service) stopVLAN(p *logicalPort) {
	if !p.received {
		return
	}
	p.received = false
	if err := s.ports.DeleteVLAN(vlanKey(p.LogicalPort)); err != nil {
		s.log.Error("port still received, frames of the VLAN are dropped as vlan_unknown", "port", p.Name, "err", err)
	}
}

func vlanKey(p mirror.LogicalPort) afxdp.VLANKey {
	return afxdp.VLANKey{Parent: uint16(p.Parent), Tag: uint16(p.Tag)}
}

// vlanRenamed handles another name of a VLAN interface or bond.
func (s *Service) vlanRenamed(number int, name string) {
	s.ports.mu.Lock()
	p := s.ports.logical[number]
	was := p.Name
	p.Name = name
	s.ports.mu.Unlock()
	s.log.Info("port renamed", "port", name, "reason", "interface renamed, was "+was)
}

// vlanDeleted handles a VLAN or bond that is no longer a port.
func (s *Service) vlanDeleted(number int) {
	s.ports.mu.Lock()
	p := s.ports.logical[number]
	s.ports.mu.Unlock()
	s.stopVLAN(p)
	if p.isBond() {
		s.bondDeleted(p)
	}
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	delete(s.ports.logical, number)
	if s.ports.addresses != nil {
		s.ports.addresses.Remove(number)
	}
	if s.ports.router != nil {
		s.ports.router.DeletePort(uint16(number))
		s.ports.router.SetAddresses(number, dataplane.Addresses{})
	}
	s.log.Info("port removed", "port", p.Name, "reason", "interface deleted, moved, or joined a master")
}

// macAdded handles another MAC address of a port.
func (s *Service) macAdded(port int, mac [6]byte) {
	m, _ := fib.ParseMAC(mac[:])
	if err := s.ports.AddMAC(uint16(port), mac); err != nil {
		s.log.Error("port MAC not added, frames to it go to Linux", "port", s.ports.nameOf(port), "mac", m, "err", err)
		return
	}
	s.log.Info("port MAC added, that of a macvlan interface", "port", s.ports.nameOf(port), "mac", m)
}

// macDeleted handles the end of a further MAC address of a port.
func (s *Service) macDeleted(port int, mac [6]byte) {
	m, _ := fib.ParseMAC(mac[:])
	if err := s.ports.DeleteMAC(uint16(port), mac); err != nil {
		s.log.Error("port MAC not deleted", "port", s.ports.nameOf(port), "mac", m, "err", err)
		return
	}
	s.log.Info("port MAC deleted, that of a macvlan interface", "port", s.ports.nameOf(port), "mac", m)
}

// warnAboutStrippedTags logs ports whose tags may be lost before the XDP program.
func (s *Service) warnAboutStrippedTags() {
	for _, p := range s.ports.all() {
		if p == nil {
			continue
		}
		if loss, hint := p.LostTags(); loss != "" {
			s.log.Warn("tags of VLANs may be lost", "port", p.Name, "reason", loss, "hint", hint)
		}
	}
}

// rpfPerTick is the number of VLANs and bonds whose rp_filter is read again in a second.
const rpfPerTick = 256

// updateVLANRPF reads rp_filter of VLANs and bonds again.
func (s *Service) updateVLANRPF() {
	type checked struct {
		config.Port
		number, ifindex int
	}
	var all []checked
	s.ports.mu.Lock()
	for number, p := range s.ports.logical { // in random order
		if len(all) == rpfPerTick {
			break
		}
		all = append(all, checked{config.Port{Interface: p.Name, ReversePath: s.ports.configured[p.Physical].ReversePath}, number, p.Ifindex})
	}
	s.ports.mu.Unlock()
	for _, p := range all {
		if r, err := rpfOf(p.Port); err == nil && r != s.fib.RPF(uint16(p.number)) {
			s.mirror.SetLogicalRPF(p.number, p.ifindex, r)
			s.log.Info("reverse path check changed", "port", p.Interface, "ipv4", rpfNames[r.IPv4], "ipv6", rpfNames[r.IPv6])
		}
	}
}

// setVLANReversePath sets the configuration that VLANs of a physical port, or the bond of a member, inherit.
func (s *Service) setVLANReversePath(port int, mode config.ReversePath) {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	s.ports.configured[port].ReversePath = mode
}

// nameOf returns the name of a port, its number if it was deleted.
func (p *ports) nameOf(number int) string {
	if on := p.port(number); on != nil {
		return on.Name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.logical[number]; l != nil {
		return l.Name
	}
	return fmt.Sprint(number)
}

// numberOf returns the number of the port with a name, or -1.
func (p *ports) numberOf(name string) int {
	if i := slices.Index(p.names(), name); i >= 0 && name != "" {
		return i
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, l := range p.logical {
		if l.Name == name {
			return number
		}
	}
	return -1
}

// allNames returns the names of all ports, physical ones first.
func (p *ports) allNames() []string {
	names := slices.DeleteFunc(p.names(), func(name string) bool { return name == "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(p.logical)) {
		names = append(names, p.logical[number].Name)
	}
	return names
}

// addLogicalPorts adds the VLANs to a snapshot, behind the physical ports, of which at has the positions by number. The
// caller holds the lock.
func (s *Service) addLogicalPorts(snap *status.Snapshot, at map[int]int) {
	snap.Ports = slices.Grow(snap.Ports, len(snap.Stats.Logical))
	snap.Stats.Ports = slices.Grow(snap.Stats.Ports, len(snap.Stats.Logical))
	for i := range snap.Stats.Logical {
		c := &snap.Stats.Logical[i]
		p := s.ports.logical[int(c.Number)]
		position, open := at[int(c.Physical)]
		if p == nil || !open { // deleted meanwhile: its drops and exits are those of its physical port
			on := &snap.Stats.Removed
			if open {
				on = &snap.Stats.Ports[position]
			}
			on.ExitPackets += c.ExitPackets
			on.ExitBytes += c.ExitBytes
			for r, n := range c.Drops {
				on.Drops[r] += n
			}
			continue
		}
		on := s.ports.port(p.Physical)
		state := status.PortState{
			Name: p.Name, Index: p.Ifindex, Parent: on.Name, VLAN: p.Tag.String(), Mode: on.Mode.String(),
			MAC: p.mac.String(), MTU: p.mtu, Up: p.up,
		}
		for _, physical := range p.carriers() {
			state.Queues += s.ports.sockets[s.ports.port(physical).Name]
		}
		if p.isBond() {
			state.Parent, state.VLAN, state.Members = "", "", s.memberStates(p)
		}
		if outer := s.ports.logical[p.Parent]; outer != nil {
			state.Parent = outer.Name
		}
		state.XDP.ToLinux = map[string]uint64{}
		snap.Ports = append(snap.Ports, state)
		snap.Stats.Ports = append(snap.Stats.Ports, c.PortStats)
	}
}
