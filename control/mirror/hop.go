package mirror

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// hop is an entry of the next-hop table, shared by all routes with the same kind, the same
// next-hop object or paths, and the same MTU.
type hop struct {
	key      string
	bare     string        // the key without the dead paths on links that are up
	id       fib.NextHopID // 0 if the table was full
	after    fib.NextHopID // previous next hop of the prefix, whose flows it keeps
	kind     fib.Kind
	tunnel   bool   // packets leave by XFRM interfaces; the kind is KindNoPort
	exits    int    // of KindNoPort: how Linux reaches the destinations (fib.NextHop.Exits)
	object   uint32 // ID of the next-hop object, or 0
	mtu      uint16 // of the routes; 0: none
	paths    []path // used by KindForward and KindNoPort; otherwise they name the link
	refs     int
	idle     bool // queued to be freed if still unused
	gone     bool // the object was deleted
	selected bool // by selectHops
}

// path is one path of a hop.
type path struct {
	link      int
	gateway   netip.Addr // invalid if destinations are on the link
	weight    uint32
	encap     bool       // needs an unsupported encapsulation
	dead      bool       // unused by Linux although its link is up: see isDeadOnUpLink
	adjacency *adjacency // nil if packets cannot leave by the path
}

// keyObject is the first byte of the key of a hop with a next-hop object. Others begin with
// their kind.
const keyObject = 0xff

// hopKinds maps the supported route types.
var hopKinds = map[uint8]fib.Kind{
	unix.RTN_UNICAST:     fib.KindForward,
	unix.RTN_LOCAL:       fib.KindLocal,
	unix.RTN_BROADCAST:   fib.KindLocal,
	unix.RTN_ANYCAST:     fib.KindLocal,
	unix.RTN_BLACKHOLE:   fib.KindBlackhole,
	unix.RTN_UNREACHABLE: fib.KindUnreachable,
	unix.RTN_PROHIBIT:    fib.KindProhibit,
	unix.RTN_THROW:       fib.KindNone, // no route: there is no next table
}

// kindOf returns the next-hop kind of a route, and whether its type is supported. A multicast
// route to unicast addresses makes them martian in IPv4 (ip_route_input_slow), and is a normal
// route in IPv6.
func kindOf(r *rtnl.Route) (kind fib.Kind, ok bool) {
	if r.Type == unix.RTN_MULTICAST {
		if r.Family == unix.AF_INET {
			return fib.KindBlackhole, true
		}
		return fib.KindForward, true
	}
	kind, ok = hopKinds[r.Type]
	return kind, ok
}

func kindByte(r *rtnl.Route) byte {
	kind, _ := kindOf(r)
	return byte(kind)
}

// routeKey stores the key of a route's hop in s.key.
func (s *state) routeKey(r *rtnl.Route) {
	if r.NexthopID != 0 {
		s.key = binary.NativeEndian.AppendUint32(append(s.key[:0], keyObject), r.NexthopID)
		s.key = binary.NativeEndian.AppendUint16(s.key, mtuOf(r))
		return
	}
	if r.Family == unix.AF_INET6 {
		// Linux reports the paths of a route in varying order.
		slices.SortFunc(r.Paths, comparePaths)
	}
	s.key = binary.NativeEndian.AppendUint16(append(s.key[:0], kindByte(r)), mtuOf(r))
	for _, p := range r.Paths {
		s.appendPath(p)
	}
}

// appendDead appends the dead paths on links that are up to the key of a route's hop, has their
// return cause a resync, and returns the length of the bare key.
func (s *state) appendDead(r *rtnl.Route) (bare int) {
	bare = len(s.key)
	for i := range r.Paths {
		if s.isDeadOnUpLink(r, &r.Paths[i]) {
			s.links[r.Paths[i].Index].suppresses = true
			s.key = binary.NativeEndian.AppendUint16(s.key, uint16(i))
		}
	}
	return bare
}

// isDeadOnUpLink reports whether Linux does not use a path although its link is up: after the last IPv4
// address of the link was deleted, or IPv6 was disabled on it, until the next address is added.
// Next-hop objects are deleted instead.
func (s *state) isDeadOnUpLink(r *rtnl.Route, p *rtnl.Path) bool {
	return p.Dead && r.NexthopID == 0 && s.isUp(p.Index)
}

// findHop returns the hop that hopOf would, or else an unregistered one with its bare key.
func (s *state) findHop(r *rtnl.Route) *hop {
	s.routeKey(r)
	bare := s.appendDead(r)
	if h := s.hops[string(s.key)]; h != nil {
		return h
	}
	return &hop{bare: string(s.key[:bare])}
}

func comparePaths(a, b rtnl.Path) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), a.Gateway.Compare(b.Gateway))
}

func (s *state) appendPath(p rtnl.Path) {
	ip := p.Gateway.As16()
	flags := byte(p.Gateway.BitLen()) // 0, 32, 128
	if p.Encap {
		flags |= 1
	}
	s.key = binary.NativeEndian.AppendUint32(s.key, uint32(p.Index))
	s.key = binary.NativeEndian.AppendUint16(s.key, p.Weight)
	s.key = append(append(s.key, flags), ip[:]...)
}

// hopOf returns a reference to the hop of a route. A new hop keeps the flows of was, the
// previous hop of the prefix, which may be nil.
func (s *state) hopOf(r *rtnl.Route, was *hop) *hop {
	s.routeKey(r)
	bare := s.appendDead(r)
	if h := s.hops[string(s.key)]; h != nil {
		h.refs++
		return h
	}
	h := &hop{key: string(s.key), mtu: mtuOf(r), refs: 1}
	h.bare = h.key[:bare]
	if was != nil {
		h.after = was.id
	}
	s.hops[h.key] = h
	if r.NexthopID != 0 {
		h.object = r.NexthopID
		s.ofObject[h.object] = append(s.ofObject[h.object], h)
		s.programObject(h)
	} else {
		paths := pathsOf(r.Paths)
		for i := range paths {
			paths[i].dead = s.isDeadOnUpLink(r, &r.Paths[i])
		}
		kind, _ := kindOf(r)
		s.program(h, kind, paths)
	}
	return h
}

// hostHop returns a reference to the hop of a neighbor's host route.
func (s *state) hostHop(n neighborID, mtu uint16) *hop {
	r := rtnl.Route{Type: unix.RTN_UNICAST, MTU: uint32(mtu), Paths: []rtnl.Path{{Index: n.link, Gateway: n.addr, Weight: 1}}}
	return s.hopOf(&r, nil)
}

func pathsOf(from []rtnl.Path) []path {
	paths := make([]path, len(from))
	for i, p := range from {
		paths[i] = path{link: p.Index, gateway: p.Gateway, weight: uint32(p.Weight), encap: p.Encap}
	}
	return paths
}

// release drops a reference. The hop stays until writeChanges, for other routes of the batch.
func (s *state) release(h *hop) {
	if h.refs--; h.refs == 0 && !h.idle {
		h.idle = true
		s.idleHops = append(s.idleHops, h)
	}
}

// program writes a hop to the next-hop table. Only KindForward uses the paths.
func (s *state) program(h *hop, kind fib.Kind, paths []path) {
	old := h.paths
	h.kind, h.paths = kind, paths
	var live, tunnels []fib.Path
	anyUp, elsewhereUp, tunnelUp := false, false, false
	for i := range paths {
		p := &paths[i]
		if p.adjacency = nil; kind == fib.KindForward {
			p.adjacency = s.adjacencyOf(p)
		}
		up := s.isUp(p.link) && !p.dead
		if id := s.tunnelOf(p); id != 0 && kind == fib.KindForward {
			tunnelUp = tunnelUp || up
			tunnels = append(tunnels, fib.Path{Adjacency: id, Weight: p.weight, Dead: !up})
			continue
		}
		if p.adjacency == nil {
			elsewhereUp = elsewhereUp || up
			continue
		}
		anyUp = anyUp || up
		live = append(live, fib.Path{Adjacency: p.adjacency.id, Weight: p.weight, Dead: !up})
	}
	h.tunnel = tunnelUp
	switch {
	case tunnelUp: // no flow leaves in cleartext that Linux may encrypt
		h.kind, live = fib.KindNoPort, tunnels
	case kind == fib.KindForward && (len(live) == 0 || elsewhereUp && !anyUp):
		h.kind, live = fib.KindNoPort, nil
	}
	err := s.writeHop(h, live)
	if err != nil && len(live) > 1 {
		// The group table is full: use one path.
		slices.SortStableFunc(live, func(a, b fib.Path) int { return dead(a) - dead(b) })
		err = s.writeHop(h, live[:1])
		s.warnOnce("groups", "ECMP group table full: some routes use one path only")
	}
	if err != nil {
		s.warnOnce("hops", "routes drop packets: "+err.Error())
	}
	if h.id != 0 {
		s.fib.SetNextHopMTU(h.id, s.mtuOver(h))
	}
	s.writeExits(h)
	s.changed = true
	for _, p := range old {
		s.releaseAdjacency(p.adjacency)
	}
}

func dead(p fib.Path) int {
	if p.Dead {
		return 1
	}
	return 0
}

func (s *state) writeHop(h *hop, paths []fib.Path) (err error) {
	if h.id != 0 {
		return s.fib.SetNextHop(h.id, h.kind, paths...)
	}
	h.id, err = s.fib.NewNextHopAfter(h.after, h.kind, paths...)
	return err
}

// reprogram rewrites a hop after a change of links or ports.
func (s *state) reprogram(h *hop) {
	kind := h.kind
	if kind == fib.KindNoPort {
		kind = fib.KindForward
	}
	s.program(h, kind, slices.Clone(h.paths))
}

// reprogramOver rewrites the hops with a path over a link.
func (s *state) reprogramOver(link int) {
	for _, h := range s.hops {
		if h.over(link) {
			s.reprogram(h)
		}
	}
}

// selectHops selects exactly the hops that match, and reports whether any of them is in use.
func (s *state) selectHops(matches func(*hop) bool) (used bool) {
	for _, h := range s.hops {
		h.selected = matches(h)
		used = used || h.selected && h.refs > 0
	}
	return used
}

// hasGateway reports whether a path uses the gateway on the link.
func (h *hop) hasGateway(link int, gateway netip.Addr) bool {
	return slices.ContainsFunc(h.paths, func(p path) bool { return p.link == link && p.gateway == gateway })
}

func (h *hop) over(link int) bool {
	return slices.ContainsFunc(h.paths, func(p path) bool { return p.link == link })
}

// unlist removes a hop from the index, so that new routes do not share it.
func (s *state) unlist(h *hop) {
	if s.hops[h.key] != h {
		return
	}
	delete(s.hops, h.key)
	if h.object == 0 {
		return
	}
	rest := slices.DeleteFunc(s.ofObject[h.object], func(other *hop) bool { return other == h })
	if s.ofObject[h.object] = rest; len(rest) == 0 {
		delete(s.ofObject, h.object)
	}
}

// freeHops frees unreferenced hops and adjacencies.
func (s *state) freeHops() {
	for _, h := range s.idleHops {
		h.idle = false
		if h.refs > 0 {
			continue
		}
		s.unlist(h)
		for _, p := range h.paths {
			s.releaseAdjacency(p.adjacency)
		}
		if h.id != 0 {
			s.fib.FreeNextHop(h.id)
		}
	}
	clear(s.idleHops)
	s.idleHops = s.idleHops[:0]
	s.freeAdjacencies()
}
