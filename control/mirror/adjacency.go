package mirror

import (
	"net/netip"

	"github.com/warproute/warproute/fib"
)

// adjacency is an adjacency of the base, shared by all paths to a neighbour.
type adjacency struct {
	id   uint32
	to   neighborID // without an address: any on the link; such a one is never resolved
	port uint16
	refs int
	idle bool // listed as perhaps unused
}

// adjacencyOf returns the adjacency of a path, new or old, with one more
// reference; nil if the path does not lead over a port.
func (s *state) adjacencyOf(p *path) *adjacency {
	to := neighborID{p.link, p.gateway}
	number := s.portNumber(p.link)
	switch {
	case number < 0:
		return nil
	case p.encap:
		s.keepWarning("encap", "routes that wrap packets (MPLS, SRv6, tunnels) are not supported: their packets are dropped as no_port")
		return nil
	}
	if a := s.adjacencies[to]; a != nil {
		a.refs++
		return a
	}
	id, err := s.fib.NewAdjacency(uint16(number))
	if err != nil {
		s.warnOnce("adjacencies", "some routes drop their packets: "+err.Error())
		return nil
	}
	a := &adjacency{id: id, to: to, port: uint16(number), refs: 1}
	s.adjacencies[to] = a
	s.numbered[id] = a
	if n := s.neighbors[to]; n != nil && n.usable() {
		s.writeAdjacency(a, n.mac)
	}
	return a
}

func (s *state) writeAdjacency(a *adjacency, mac fib.MAC) {
	s.fib.SetAdjacency(a.id, a.port, mac)
	s.changed = true
}

// releaseAdjacency takes back a reference; a may be nil.
func (s *state) releaseAdjacency(a *adjacency) {
	if a == nil {
		return
	}
	if a.refs--; a.refs == 0 && !a.idle {
		a.idle = true
		s.idleAdjs = append(s.idleAdjs, a)
	}
}

func (s *state) freeAdjacencies() {
	for _, a := range s.idleAdjs {
		a.idle = false
		if a.refs == 0 {
			delete(s.adjacencies, a.to)
			delete(s.numbered, a.id)
			s.fib.FreeAdjacency(a.id)
		}
	}
	clear(s.idleAdjs)
	s.idleAdjs = s.idleAdjs[:0]
}

// onLink reports whether a path's destinations are its neighbours themselves.
func (p *path) onLink() bool { return p.gateway == netip.Addr{} }
