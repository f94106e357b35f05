package mirror

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// Tunnel is an XFRM interface of Linux that leads to the tunnels of the router's IPsec gateway.
type Tunnel struct {
	Name    string
	Ifindex int
	IfID    uint32
	MTU     int  // bytes of IP packet
	Up      bool // Linux receives packets of its SAs
}

// tunnel returns a link as a Tunnel, the zero Tunnel for links of other kinds, those of SAs in another network
// namespace or without a fixed if_id (external), and members of a VRF, whose table the router does not have.
func (l *link) tunnel() Tunnel {
	if l.Kind != "xfrm" || l.IfID == 0 || l.Foreign || l.Claimed() || l.port >= 0 {
		return Tunnel{}
	}
	return Tunnel{l.Name, l.Index, l.IfID, int(l.MTU), l.Flags&unix.IFF_UP != 0}
}

// tunnelOf returns the if_id of the XFRM interface of a path, 0 for other links.
func (s *state) tunnelOf(p *path) uint32 {
	l := s.links[p.link]
	if s.hooks.Tunnels == nil || l == nil || p.encap {
		return 0
	}
	return l.tunnel().IfID
}

// mtuOver returns the MTU of a hop: that of its routes, or of its XFRM interfaces if one is smaller; 0 for none.
func (s *state) mtuOver(h *hop) uint16 {
	if !h.tunnel {
		return h.mtu
	}
	mtu := math.MaxUint16
	if h.mtu != 0 {
		mtu = int(h.mtu)
	}
	for i := range h.paths {
		if p := &h.paths[i]; s.tunnelOf(p) != 0 && s.isUp(p.link) && !p.dead {
			mtu = min(mtu, int(s.links[p.link].MTU))
		}
	}
	return uint16(mtu)
}

// reportTunnels calls the hook after a change.
func (s *state) reportTunnels() {
	if !s.tunnelsChanged || s.hooks.Tunnels == nil {
		return
	}
	s.tunnelsChanged = false
	var all []Tunnel
	for _, l := range s.links {
		if t := l.tunnel(); t != (Tunnel{}) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Tunnel) int { return a.Ifindex - b.Ifindex })
	s.hooks.Tunnels(all)
}
