package mirror

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// neighborID identifies a neighbor: an address on a link.
type neighborID struct {
	link int
	addr netip.Addr
}

// neighbor is an entry of the ARP or ND table for a port.
type neighbor struct {
	mac   fib.MAC
	state uint16
	since time.Time // start of the state, or last probe
	seen  uint32
}

const usableStates = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT | unix.NUD_NOARP

// usable reports whether packets may be sent to the neighbor.
func (n *neighbor) usable() bool { return n.mac != 0 && n.state&usableStates != 0 }

// setNeighbor applies a neighbor message.
func (s *state) setNeighbor(r *rtnl.Neighbor, deleted bool) {
	switch {
	case r.Family != unix.AF_INET && r.Family != unix.AF_INET6,
		r.Flags&unix.NTF_PROXY != 0, // proxy ARP or ND
		!r.Addr.IsValid() || r.Addr.IsMulticast(),
		s.portNumber(r.Index) < 0:
		return
	}
	id := neighborID{r.Index, r.Addr}
	if deleted {
		s.forgetNeighbor(id)
		return
	}
	n := s.neighbors[id]
	if n == nil {
		n = new(neighbor)
		s.neighbors[id] = n
	}
	was := *n
	n.mac, n.state, n.seen = toMAC(r.Address), r.State, s.dumpSeq
	if n.state != was.state {
		n.since = time.Now()
	}
	s.neighborChanged(id, &was, n)
}

func (s *state) forgetNeighbor(id neighborID) {
	if n := s.neighbors[id]; n != nil {
		delete(s.neighbors, id)
		s.neighborChanged(id, n, new(neighbor))
	}
}

func (s *state) forgetNeighborsOn(link int) {
	for id := range s.neighbors {
		if id.link == link {
			s.forgetNeighbor(id)
		}
	}
}

// neighborChanged writes the adjacency and the host route of a neighbor.
func (s *state) neighborChanged(id neighborID, was, is *neighbor) {
	if was.usable() == is.usable() && (was.mac == is.mac || !is.usable()) {
		return
	}
	if is.usable() && s.onResolved != nil {
		s.onResolved(id)
	}
	if a := s.adjacencies[id]; a != nil {
		mac := is.mac
		if !is.usable() {
			mac = 0
		}
		s.writeAdjacency(a, mac)
	}
	if was.usable() == is.usable() || !routable(id.addr) {
		return
	}
	host := netip.PrefixFrom(id.addr, id.addr.BitLen())
	links, _ := s.resolved.Get(host)
	if is.usable() {
		links++
	} else {
		links--
	}
	if links > 0 {
		s.resolved.Insert(host, links)
	} else {
		s.resolved.Delete(host)
	}
	s.markHostDirtyInAll(host)
}

// routable reports whether packets to an address can be routed.
func routable(ip netip.Addr) bool { return !ip.IsLinkLocalUnicast() || ip.Is4() }

// hostNeighbor returns the resolved neighbor with an address on a link of the longest matching
// route, and the MTU of that route.
func (s *state) hostNeighbor(t *table, addr netip.Addr) (id neighborID, mtu uint16, ok bool) {
	_, head, found := t.routes.LookupPrefixLPM(netip.PrefixFrom(addr, addr.BitLen()))
	if !found {
		return id, 0, false
	}
	best := hopAt(head)
	for i := range best.paths {
		p := &best.paths[i]
		id = neighborID{p.link, addr}
		if n := s.neighbors[id]; p.onLink() && p.adjacency != nil && n != nil && n.usable() {
			return id, best.mtu, true
		}
	}
	return neighborID{}, 0, false
}

// markNeighborsDirty marks the host routes under a prefix dirty.
func (s *state) markNeighborsDirty(t *table, p netip.Prefix) {
	if s.resolved.Size() == 0 {
		return
	}
	for host := range s.resolved.Subnets(p) {
		s.markHostDirty(t, host)
	}
}
