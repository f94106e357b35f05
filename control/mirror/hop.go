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

// hop is a next hop of the base, shared by all routes that lead the same way:
// by the same kind, by the same next-hop object, or over the same paths, and with the same
// MTU of their own.
type hop struct {
	key    string
	bare   string // the key, whatever paths are lost
	id     fib.ID // 0 if the base had no room
	after  fib.ID // whose flows it takes over, while it has no number
	kind   fib.Kind
	object uint32 // the next-hop object that it stands for, or 0
	mtu    uint16 // of its routes, 0 if they have none
	paths  []path // of other kinds than KindForward and KindNoPort they only say which link
	refs   int
	idle   bool // listed as perhaps unused
	gone   bool // the object was deleted
	marked bool // by markHops
}

// path is one way of a hop.
type path struct {
	link      int
	gateway   netip.Addr // invalid: destinations are on the link
	weight    uint32
	encap     bool       // needs a header that the dataplane does not make
	lost      bool       // Linux passes it over though its link is up: see isLost
	adjacency *adjacency // nil if packets cannot leave this way
}

// keyObject begins the key of a hop that stands for an object; others begin with
// their kind.
const keyObject = 0xff

// hopKinds are the route types that are followed.
var hopKinds = map[uint8]fib.Kind{
	unix.RTN_UNICAST:     fib.KindForward,
	unix.RTN_LOCAL:       fib.KindLocal,
	unix.RTN_BROADCAST:   fib.KindLocal,
	unix.RTN_ANYCAST:     fib.KindLocal,
	unix.RTN_BLACKHOLE:   fib.KindBlackhole,
	unix.RTN_UNREACHABLE: fib.KindUnreachable,
	unix.RTN_PROHIBIT:    fib.KindProhibit,
	unix.RTN_THROW:       fib.KindNone, // the next table has nothing: no route
}

// kindOf returns what becomes of packets that take a route, and whether its type is followed.
// Type multicast on unicast addresses is martian to Linux's IPv4 (ip_route_input_slow), and
// forwarded as any other by its IPv6.
func kindOf(r *rtnl.Route) (kind fib.Kind, followed bool) {
	if r.Type == unix.RTN_MULTICAST {
		if r.Family == unix.AF_INET {
			return fib.KindBlackhole, true
		}
		return fib.KindForward, true
	}
	kind, followed = hopKinds[r.Type]
	return kind, followed
}

func kindByte(r *rtnl.Route) byte {
	kind, _ := kindOf(r)
	return byte(kind)
}

// routeKey puts the key of a route's hop into s.key.
func (s *state) routeKey(r *rtnl.Route) {
	if r.NexthopID != 0 {
		s.key = binary.NativeEndian.AppendUint32(append(s.key[:0], keyObject), r.NexthopID)
		s.key = binary.NativeEndian.AppendUint16(s.key, mtuOf(r))
		return
	}
	if r.Family == unix.AF_INET6 {
		// Linux tells the paths of the same route in any order.
		slices.SortFunc(r.Hops, compareHops)
	}
	s.key = binary.NativeEndian.AppendUint16(append(s.key[:0], kindByte(r)), mtuOf(r))
	for _, h := range r.Hops {
		s.appendPath(h)
	}
}

// appendLost appends to the key of a route's hop which paths are lost, has them looked at
// again when they may be back, and returns how long the bare key is.
func (s *state) appendLost(r *rtnl.Route) (bare int) {
	bare = len(s.key)
	for i := range r.Hops {
		if s.isLost(r, &r.Hops[i]) {
			s.links[r.Hops[i].Index].hides = true
			s.key = binary.NativeEndian.AppendUint16(s.key, uint16(i))
		}
	}
	return bare
}

// isLost reports whether Linux passes over a path though its link is up: since the link's
// last IPv4 address was taken away, or IPv6 was disabled on it. Linux takes the path up again
// with the next address. An object of which that was true would be gone.
func (s *state) isLost(r *rtnl.Route, h *rtnl.Hop) bool {
	return h.Dead && r.NexthopID == 0 && s.isUp(h.Index)
}

// hopLike returns the hop that hopOf would, or one that is in no book but has its bare key.
func (s *state) hopLike(r *rtnl.Route) *hop {
	s.routeKey(r)
	bare := s.appendLost(r)
	if h := s.hops[string(s.key)]; h != nil {
		return h
	}
	return &hop{bare: string(s.key[:bare])}
}

func compareHops(a, b rtnl.Hop) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), a.Gateway.Compare(b.Gateway))
}

func (s *state) appendPath(h rtnl.Hop) {
	ip := h.Gateway.As16()
	flags := byte(h.Gateway.BitLen()) // 0, 32, 128
	if h.Encap {
		flags |= 1
	}
	s.key = binary.NativeEndian.AppendUint32(s.key, uint32(h.Index))
	s.key = binary.NativeEndian.AppendUint16(s.key, h.Weight)
	s.key = append(append(s.key, flags), ip[:]...)
}

// hopOf returns the hop of a route, new or old, with one more reference. A new one takes
// over the flows of was, which may be nil: that which the prefix has had.
func (s *state) hopOf(r *rtnl.Route, was *hop) *hop {
	s.routeKey(r)
	bare := s.appendLost(r)
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
		paths := pathsOf(r.Hops)
		for i := range paths {
			paths[i].lost = s.isLost(r, &r.Hops[i])
		}
		kind, _ := kindOf(r)
		s.program(h, kind, paths)
	}
	return h
}

// hostHop returns the hop to a neighbour on a route with an MTU, with one more reference.
func (s *state) hostHop(n neighborID, mtu uint16) *hop {
	r := rtnl.Route{Type: unix.RTN_UNICAST, MTU: uint32(mtu), Hops: []rtnl.Hop{{Index: n.link, Gateway: n.addr, Weight: 1}}}
	return s.hopOf(&r, nil)
}

func pathsOf(hops []rtnl.Hop) []path {
	paths := make([]path, len(hops))
	for i, h := range hops {
		paths[i] = path{link: h.Index, gateway: h.Gateway, weight: uint32(h.Weight), encap: h.Encap}
	}
	return paths
}

// release takes back a reference. The hop stays until flush, in case a route
// wants it again.
func (s *state) release(h *hop) {
	if h.refs--; h.refs == 0 && !h.idle {
		h.idle = true
		s.idleHops = append(s.idleHops, h)
	}
}

// program writes a hop to the base. Only KindForward makes use of the paths.
func (s *state) program(h *hop, kind fib.Kind, paths []path) {
	old := h.paths
	h.kind, h.paths = kind, paths
	var ways []fib.Path
	living, elsewhere := false, false
	for i := range paths {
		p := &paths[i]
		if p.adjacency = nil; kind == fib.KindForward {
			p.adjacency = s.adjacencyOf(p)
		}
		up := s.isUp(p.link) && !p.lost
		if p.adjacency == nil {
			elsewhere = elsewhere || up
			continue
		}
		living = living || up
		ways = append(ways, fib.Path{Adjacency: p.adjacency.id, Weight: p.weight, Dead: !up})
	}
	if kind == fib.KindForward && (len(ways) == 0 || elsewhere && !living) {
		h.kind, ways = fib.KindNoPort, nil
	}
	err := s.writeHop(h, ways)
	if err != nil && len(ways) > 1 {
		// No room for another group: better one path than none.
		slices.SortStableFunc(ways, func(a, b fib.Path) int { return dead(a) - dead(b) })
		err = s.writeHop(h, ways[:1])
		s.warnOnce("groups", "there is no room for more multipath next hops: some routes use one path only")
	}
	if err != nil {
		s.warnOnce("hops", "some routes drop their packets: "+err.Error())
	}
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

func (s *state) writeHop(h *hop, ways []fib.Path) (err error) {
	if h.id != 0 {
		return s.fib.SetNextHop(h.id, h.kind, ways...)
	}
	if h.id, err = s.fib.NewNextHopAfter(h.after, h.kind, ways...); err == nil {
		s.fib.SetNextHopMTU(h.id, h.mtu)
	}
	return err
}

// reprogram writes a hop again after links or ports changed.
func (s *state) reprogram(h *hop) {
	kind := h.kind
	if kind == fib.KindNoPort {
		kind = fib.KindForward
	}
	s.program(h, kind, slices.Clone(h.paths))
}

// reprogramOver writes the hops again that have a path over a link.
func (s *state) reprogramOver(link int) {
	for _, h := range s.hops {
		if h.over(link) {
			s.reprogram(h)
		}
	}
}

// markHops marks the hops that match, and no others, and reports whether routes
// use any of them.
func (s *state) markHops(matches func(*hop) bool) (used bool) {
	for _, h := range s.hops {
		h.marked = matches(h)
		used = used || h.marked && h.refs > 0
	}
	return used
}

// leads reports whether one of the paths is by a gateway.
func (h *hop) leads(link int, gateway netip.Addr) bool {
	return slices.ContainsFunc(h.paths, func(p path) bool { return p.link == link && p.gateway == gateway })
}

func (h *hop) over(link int) bool {
	return slices.ContainsFunc(h.paths, func(p path) bool { return p.link == link })
}

// unlist takes a hop out of the books: routes that lead the same way get another one.
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

// freeHops gives back what no route refers to any more.
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
