package mirror

import (
	"net/netip"

	"github.com/warproute/warproute/fib"
)

// adjacency is an entry of the adjacency table, shared by all paths to a neighbor.
type adjacency struct {
	id   uint32
	to   neighborID // no address: any destination on the link, never resolved
	port uint16
	refs int
	idle bool // queued to be freed if still unused
}

// adjacencyOf returns a reference to the adjacency of a path, nil if its link is not a port.
func (s *state) adjacencyOf(p *path) *adjacency {
	to := neighborID{p.link, p.gateway}
	number := s.portNumber(p.link)
	switch {
	case number < 0:
		return nil
	case p.encap:
		s.keepWarning("encap", "routes with encapsulation (MPLS, SRv6, tunnels) are not supported: packets dropped as no_port")
		return nil
	}
	if a := s.adjacencies[to]; a != nil {
		if a.port != uint16(number) { // the link was another port before
			a.port = uint16(number)
			s.rewriteAdjacency(a)
		}
		a.refs++
		return a
	}
	id, err := s.fib.NewAdjacency(uint16(number))
	if err != nil {
		s.warnOnce("adjacencies", "routes drop packets: "+err.Error())
		return nil
	}
	a := &adjacency{id: id, to: to, port: uint16(number), refs: 1}
	s.adjacencies[to] = a
	s.adjacencyByID[id] = a
	s.rewriteAdjacency(a)
	return a
}

// rewriteAdjacency writes an adjacency with the state of its neighbor.
func (s *state) rewriteAdjacency(a *adjacency) {
	if n := s.neighbors[a.to]; n != nil && n.usable() {
		s.writeAdjacency(a, n.mac)
	} else {
		s.writeAdjacency(a, 0)
	}
}

func (s *state) writeAdjacency(a *adjacency, mac fib.MAC) {
	s.fib.SetAdjacency(a.id, a.port, mac)
	s.changed = true
}

// releaseAdjacency drops a reference. a may be nil.
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
			delete(s.adjacencyByID, a.id)
			s.fib.FreeAdjacency(a.id)
		}
	}
	clear(s.idleAdjs)
	s.idleAdjs = s.idleAdjs[:0]
}

// onLink reports whether the destinations of a path are neighbors on its link.
func (p *path) onLink() bool { return p.gateway == netip.Addr{} }
