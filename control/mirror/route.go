package mirror

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// route is one route of a prefix. The routes of a prefix are a list, the best
// first: it is the one in the base.
type route struct {
	next *route
	hop  *hop
	src  netip.Addr // preferred source address
	// Routes of one class, which is table and metric, stand together, in the
	// order in which Linux would try them.
	class    uint64
	seen     uint32
	metrics  uint32 // as rtnl.Route has them
	rank     int8   // likewise
	kind     uint8  // unix.RTN_...
	protocol uint8
	scope    uint8
	ecmp     bool // IPv6: one multipath route with all others like it of its class
}

// tables are those consulted, in this order.
var tables = map[uint32]uint64{unix.RT_TABLE_LOCAL: 0, unix.RT_TABLE_MAIN: 1, unix.RT_TABLE_DEFAULT: 2}

func classOf(r *rtnl.Route) uint64 { return tables[r.Table]<<32 | uint64(r.Metric) }

func (r *route) metric() uint32 { return uint32(r.class) }

func (r *route) table() uint32 {
	return [...]uint32{unix.RT_TABLE_LOCAL, unix.RT_TABLE_MAIN, unix.RT_TABLE_DEFAULT}[r.class>>32]
}

func (s *state) newRoute(r *rtnl.Route, h *hop) route {
	return route{
		hop: h, src: r.PrefSrc, class: classOf(r), seen: s.epoch, metrics: r.Metrics, rank: r.Rank,
		kind: r.Type, protocol: r.Protocol, scope: r.Scope, ecmp: isECMP(r),
	}
}

// isECMP reports whether Linux joins a route with others like it (rt6_qualify_for_ecmp). It
// does not join those that it made of router advertisements itself; those that a daemon made
// of them look the same, until one comes as one of several paths.
func isECMP(r *rtnl.Route) bool {
	return r.Family == unix.AF_INET6 && r.NexthopID == 0 &&
		(r.Multipath || r.Protocol != unix.RTPROT_RA && len(r.Hops) == 1 && r.Hops[0].Gateway.IsValid())
}

// concerns reports whether the dataplane follows a route.
func (s *state) concerns(r *rtnl.Route) bool {
	_, table := tables[r.Table]
	_, followed := kindOf(r)
	ip := r.Dst.Addr()
	switch {
	case r.Family != unix.AF_INET && r.Family != unix.AF_INET6,
		!table, r.Flags&unix.RTM_F_CLONED != 0,
		!followed,
		ip.IsMulticast(),
		!routable(ip) && r.Type == unix.RTN_UNICAST:
		return false
	case r.TOS != 0:
		s.note(ByTOS, "", r.Dst)
		s.keepWarning("tos", "routes by type of service are not supported: "+r.Dst.String()+" is ignored")
		return false
	case r.HasSrc:
		s.note(BySource, "", r.Dst)
		s.keepWarning("src", "routes by source address are not supported: "+r.Dst.String()+" is ignored")
		return false
	}
	switch {
	case r.Table == unix.RT_TABLE_DEFAULT:
		s.warnOnce("default", "routes of the table default are used as if they were in main")
	case r.Type == unix.RTN_LOCAL && !r.Dst.IsSingleIP() && !ip.IsLoopback():
		s.note(LocalPrefix, "", r.Dst)
		s.keepWarning("local", "local routes of more than one address are not supported: packets to "+r.Dst.String()+" are dropped as local_delivery")
	}
	if r.Type == unix.RTN_MULTICAST && r.Family == unix.AF_INET {
		s.note(MulticastType, "", r.Dst)
	}
	return true
}

// hide passes over a route, if all of its paths are dead, until one of their
// links is up again.
func (s *state) hide(r *rtnl.Route) bool {
	if len(r.Hops) == 0 || slices.ContainsFunc(r.Hops, func(h rtnl.Hop) bool { return !h.Dead }) {
		return false
	}
	for _, h := range r.Hops {
		if l := s.links[h.Index]; l != nil {
			l.hides = true
		}
	}
	return true
}

// learn applies a route of Linux: an event, or a piece of a dump. Flags of
// events say what became of other routes of the same prefix and metric; routes of
// a dump come in Linux's order.
func (s *state) learn(r *rtnl.Route, flags uint16) {
	switch {
	case r.Table == charonTable:
		s.setCharonRoute(r, false)
		return
	case !s.concerns(r), s.expired(r):
		return
	case s.hide(r):
		if flags&unix.NLM_F_REPLACE != 0 {
			s.suspects.everything() // that which it replaces is gone
		}
		return
	case s.marking:
		s.markRoute(r)
		return
	}
	head, _ := s.routes.Get(r.Dst)
	oldHead, oldHop := head, hopAt(head)
	is := s.newRoute(r, s.hopOf(r, oldHop))
	s.noteHop(r, is.hop)

	at := &head // where the class begins
	for *at != nil && (*at).class < is.class {
		at = &(*at).next
	}
	dumped, replaces := flags&unix.NLM_F_MULTI != 0, flags&unix.NLM_F_REPLACE != 0
	if flags&unix.NLM_F_EXCL != 0 { // Linux knows no other of the class
		s.dropClass(at, is.class, func(r *route) bool { return !r.like(&is) })
	}
	was := s.sameRoute(at, &is, r.Family, replaces)
	if s.catchUp && replaces && was != nil && !was.like(&is) {
		s.raced = true
	}
	if was != nil && !replaces && (dumped || !is.ecmp) && !(*at).alone() {
		// It goes to its place in the dump's order; or Linux, which refuses to
		// add what it has, had dropped it in silence.
		s.dropClass(at, is.class, func(r *route) bool { return r == was })
		was = nil
	}
	if was != nil && is.ecmp && was.hop.mtu != is.hop.mtu {
		s.suspects.everything() // each path has an MTU to Linux, which tells that of the first, or of the one added
	}
	if was != nil {
		s.forgetRoute(was)
		is.next = was.next
		*was = is
	} else {
		if dumped || flags&unix.NLM_F_APPEND != 0 || r.Family == unix.AF_INET6 {
			for *at != nil && (*at).class == is.class {
				at = &(*at).next
			}
		}
		added := new(route)
		*added = is
		added.next = *at
		*at = added
	}
	if is.src.Is4() {
		s.sources[is.src]++
	}
	s.setRoutes(r.Dst, oldHead, head)
	if hopAt(head) != oldHop {
		s.touch(r.Dst)
	}
}

// alone reports whether the first route of a class is its last.
func (r *route) alone() bool { return r.next == nil || r.next.class != r.class }

// markRoute notes that Linux has a route, if it is known.
func (s *state) markRoute(r *rtnl.Route) {
	is := s.newRoute(r, s.hopLike(r))
	for known, _ := s.routes.Get(r.Dst); known != nil; known = known.next {
		if known.meant(&is, r) {
			known.seen = s.epoch
			if known.hop.object == 0 && known.hop != is.hop {
				s.suspects.everything() // it has lost a path
			}
		}
	}
}

// dropClass drops the routes of a class that match.
func (s *state) dropClass(at **route, class uint64, matches func(*route) bool) {
	for *at != nil && (*at).class == class {
		if r := *at; matches(r) {
			*at = r.next
			s.forgetRoute(r)
		} else {
			at = &r.next
		}
	}
}

// sameRoute finds the route that a new one is, or takes the place of.
func (s *state) sameRoute(at **route, is *route, family uint8, replaces bool) *route {
	var same, first *route
	for r := *at; r != nil && r.class == is.class && same == nil; r = r.next {
		if first == nil {
			first = r
		}
		switch {
		case family == unix.AF_INET:
			if r.like(is) {
				same = r
			}
		case is.ecmp, replaces && is.hop.object == 0: // that of an object may only tell that the object changed
			if r.ecmp == is.ecmp || r.joins(is) {
				same = r
			}
		case !r.ecmp && r.kind == is.kind && r.hop == is.hop:
			same = r
		}
	}
	if same == nil && replaces {
		return first
	}
	return same
}

// like reports whether two routes of a prefix are the same to Linux. The type of
// one by a next-hop object changes with the object.
func (r *route) like(other *route) bool {
	return r.class == other.class && (r.kind == other.kind || r.hop.object != 0) && r.protocol == other.protocol &&
		r.scope == other.scope && r.src == other.src && r.hop.bare == other.hop.bare && r.metrics == other.metrics
}

// joins reports whether a route turns out to be a path of a multipath route that comes.
func (r *route) joins(is *route) bool {
	return is.ecmp && r.hop.object == 0 && len(r.hop.paths) == 1 && is.hop.leads(r.hop.paths[0].link, r.hop.paths[0].gateway)
}

// unlearn applies the deletion of a route.
func (s *state) unlearn(r *rtnl.Route) {
	if r.Table == charonTable {
		s.setCharonRoute(r, true)
	}
	concerns := s.concerns(r)
	s.forget(r)
	if !concerns {
		return
	}
	head, _ := s.routes.Get(r.Dst)
	oldHead, oldHop := head, hopAt(head)
	at := s.find(&head, r)
	if r.Family == unix.AF_INET6 { // of which the message has the MTU that Linux gave it in silence
		for known := head; *at == nil && known != nil; known = known.next {
			r.MTU = uint32(known.hop.mtu)
			at = s.find(&head, r)
		}
	}
	if *at == nil {
		return // as Linux wants it; a dump or another event was faster
	}
	if s.catchUp && r.Family == unix.AF_INET6 {
		s.raced = true // Linux's dump of IPv6 routes skips some when others go meanwhile
	}
	rest := &rtnl.Route{Family: r.Family, Type: unix.RTN_UNICAST, MTU: uint32((*at).hop.mtu), Hops: s.restOf(*at, r)}
	if len(rest.Hops) > 0 && !s.hide(rest) {
		was := (*at).hop
		(*at).hop = s.hopOf(rest, was)
		s.release(was)
	} else {
		was := *at
		*at = was.next
		s.forgetRoute(was)
	}
	s.setRoutes(r.Dst, oldHead, head)
	if hopAt(head) != oldHop {
		s.touch(r.Dst)
	}
}

// find returns the place in a list of the route that a message means, that of its end if
// there is none.
func (s *state) find(at **route, r *rtnl.Route) **route {
	is := s.newRoute(r, s.hopLike(r))
	for *at != nil && !(*at).meant(&is, r) {
		at = &(*at).next
	}
	return at
}

// meant reports whether a message, which would make the route is, means this one.
func (r *route) meant(is *route, msg *rtnl.Route) bool {
	switch {
	case r.class != is.class:
		return false
	case msg.NexthopID != 0: // whose hop may have changed its meaning
		return r.hop.object == msg.NexthopID && r.hop.mtu == mtuOf(msg)
	case is.ecmp:
		return r.ecmp
	case r.ecmp && len(msg.Hops) == 1: // of a daemon, see isECMP
		return r.hop.leads(msg.Hops[0].Index, msg.Hops[0].Gateway)
	case msg.Family == unix.AF_INET6: // whose preferred source may have changed in silence
		return r.kind == is.kind && r.hop.bare == is.hop.bare
	}
	return r.like(is)
}

// restOf returns the hops of an IPv6 multipath route that a deletion leaves.
func (s *state) restOf(r *route, gone *rtnl.Route) (rest []rtnl.Hop) {
	if !r.ecmp {
		return nil
	}
	for _, p := range r.hop.paths {
		if !slices.ContainsFunc(gone.Hops, func(h rtnl.Hop) bool { return h.Index == p.link && h.Gateway == p.gateway }) {
			l := s.links[p.link]
			rest = append(rest, rtnl.Hop{
				Index: p.link, Gateway: p.gateway, Weight: uint16(p.weight), Encap: p.encap,
				Dead: p.lost || l == nil || l.Flags&unix.IFF_UP == 0,
			})
		}
	}
	return rest
}

// setRoutes stores the list of a prefix if it begins otherwise now.
func (s *state) setRoutes(p netip.Prefix, was, is *route) {
	switch {
	case is == nil && was != nil:
		s.routes.Delete(p)
	case is != was:
		s.routes.Insert(p, is)
	}
}

// forgetRoute gives up what a route that is no longer in a list holds.
func (s *state) forgetRoute(r *route) {
	s.release(r.hop)
	if r.src.Is4() {
		if s.sources[r.src]--; s.sources[r.src] == 0 {
			delete(s.sources, r.src)
		}
	}
}

// sweepRoutes drops all routes that match, and reports whether any of them had
// others in its class.
func (s *state) sweepRoutes(matches func(netip.Prefix, *route) bool) (others bool) {
	var found []netip.Prefix // the table must not change while it is walked
	for p, r := range s.routes.All() {
		for ; r != nil; r = r.next {
			if matches(p, r) {
				found = append(found, p)
				break
			}
		}
	}
	for _, p := range found {
		head, _ := s.routes.Get(p)
		oldHead, oldHop := head, hopAt(head)
		for at := &head; *at != nil; {
			if r := *at; matches(p, r) {
				others = others || !r.alone()
				*at = r.next
				s.forgetRoute(r)
			} else {
				others = others || !r.alone() && matches(p, r.next)
				at = &r.next
			}
		}
		s.setRoutes(p, oldHead, head)
		if hopAt(head) != oldHop {
			s.touch(p)
		}
	}
	return others
}

// best returns the route of a list that is used, nil of an empty one: the first of those that
// Linux prefers (rt6_score_route).
func (r *route) best() *route {
	best := r
	for ; r != nil && r.class == best.class; r = r.next {
		if r.rank > best.rank {
			best = r
		}
	}
	return best
}

func hopAt(head *route) *hop {
	if r := head.best(); r != nil {
		return r.hop
	}
	return nil
}
