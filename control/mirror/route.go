package mirror

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// route is one route of a prefix. The routes of a prefix are a list, in order of priority.
type route struct {
	next *route
	hop  *hop
	src  netip.Addr // preferred source address
	// priority is table and metric; lower ones come first. Routes of a priority are in Linux's order.
	priority uint64
	seen     uint32
	metrics  uint32 // see rtnl.Route
	pref     int8   // see rtnl.Route
	kind     uint8  // unix.RTN_...
	protocol uint8
	scope    uint8
	ecmp     bool // IPv6: part of a multipath route, with the others of its priority
}

// tables are searched in this order.
var tables = map[uint32]uint64{unix.RT_TABLE_LOCAL: 0, unix.RT_TABLE_MAIN: 1, unix.RT_TABLE_DEFAULT: 2}

// priorityOf returns the priority of a route. Those of VRFs have one table, as main.
func priorityOf(r *rtnl.Route) uint64 {
	order, ok := tables[r.Table]
	if !ok {
		order = tables[unix.RT_TABLE_MAIN]
	}
	return order<<32 | uint64(r.Metric)
}

func (r *route) metric() uint32 { return uint32(r.priority) }

func (r *route) table() uint32 {
	return [...]uint32{unix.RT_TABLE_LOCAL, unix.RT_TABLE_MAIN, unix.RT_TABLE_DEFAULT}[r.priority>>32]
}

func (s *state) newRoute(r *rtnl.Route, h *hop) route {
	return route{
		hop: h, src: r.PrefSrc, priority: priorityOf(r), seen: s.dumpSeq, metrics: r.Metrics, pref: r.Pref,
		kind: r.Type, protocol: r.Protocol, scope: r.Scope, ecmp: isECMP(r),
	}
}

// isECMP reports whether Linux joins a route with others to a multipath route
// (rt6_qualify_for_ecmp). It does not join routes from router advertisements that the kernel
// added; those added by a daemon look the same until they are one of several paths.
func isECMP(r *rtnl.Route) bool {
	return r.Family == unix.AF_INET6 && r.NexthopID == 0 &&
		(r.Multipath || r.Protocol != unix.RTPROT_RA && len(r.Paths) == 1 && r.Paths[0].Gateway.IsValid())
}

// follows reports whether the router uses a route, and warns if it cannot.
func (s *state) follows(r *rtnl.Route) bool {
	_, kindOK := kindOf(r)
	ip := r.Dst.Addr()
	switch {
	case r.Family != unix.AF_INET && r.Family != unix.AF_INET6,
		s.tableOf(r.Table) == nil, r.Flags&unix.RTM_F_CLONED != 0,
		!kindOK,
		ip.IsMulticast(),
		!routable(ip) && r.Type == unix.RTN_UNICAST:
		return false
	case r.TOS != 0:
		s.queueReport(ByTOS, "", r.Dst)
		s.keepWarning("tos", "routes by type of service are not supported: "+r.Dst.String()+" is ignored")
		return false
	case r.HasSrc:
		s.queueReport(BySource, "", r.Dst)
		s.keepWarning("src", "routes by source address are not supported: "+r.Dst.String()+" is ignored")
		return false
	}
	switch {
	case r.Table == unix.RT_TABLE_DEFAULT:
		s.warnOnce("default", "routes of the table default are used as if they were in main")
	case r.Type == unix.RTN_LOCAL && !r.Dst.IsSingleIP() && !ip.IsLoopback():
		s.queueReport(LocalPrefix, "", r.Dst)
		s.keepWarning("local", "local routes of more than one address are not supported: packets to "+r.Dst.String()+" are dropped as local_delivery")
	}
	if r.Type == unix.RTN_MULTICAST && r.Family == unix.AF_INET {
		s.queueReport(MulticastType, "", r.Dst)
	}
	return true
}

// suppress ignores a route whose paths are all dead, until one of their links is up again.
func (s *state) suppress(r *rtnl.Route) bool {
	if len(r.Paths) == 0 || slices.ContainsFunc(r.Paths, func(p rtnl.Path) bool { return !p.Dead }) {
		return false
	}
	for _, p := range r.Paths {
		if l := s.links[p.Index]; l != nil {
			l.suppresses = true
		}
	}
	return true
}

// addRoute applies a route of Linux: an event, or a message of a dump. The flags of an event
// say how it changes the other routes of its prefix and metric; a dump has Linux's order.
func (s *state) addRoute(r *rtnl.Route, flags uint16) {
	switch {
	case r.Table == charonTable && s.tableOf(r.Table) == nil:
		s.setCharonRoute(r, false)
		return
	case !s.follows(r), s.expired(r):
		return
	case s.suppress(r):
		if flags&unix.NLM_F_REPLACE != 0 {
			s.suspects.addAll() // the replaced route is gone
		}
		return
	case s.onlyKeep:
		s.keepRoute(r)
		return
	}
	e := s.edit(s.tableOf(r.Table), r.Dst)
	added := s.newRoute(r, s.hopOf(r, e.oldHop))
	s.reportHop(r, added.hop)
	first := e.first(added.priority)
	if flags&unix.NLM_F_EXCL != 0 { // Linux has no other route of the priority
		s.dropMatching(first, added.priority, func(r *route) bool { return !r.sameAs(&added) })
	}
	if old := s.replaced(first, &added, r.Family, flags); old != nil {
		s.forgetRoute(old)
		added.next = old.next
		*old = added
	} else {
		insertRoute(first, added, flags&(unix.NLM_F_MULTI|unix.NLM_F_APPEND) != 0 || r.Family == unix.AF_INET6)
	}
	if added.src.Is4() {
		s.sources[added.src]++
	}
	s.finish(&e)
}

// replaced returns the route that a new one updates in place, nil for none.
func (s *state) replaced(first **route, added *route, family uint8, flags uint16) *route {
	dumped, replaces := flags&unix.NLM_F_MULTI != 0, flags&unix.NLM_F_REPLACE != 0
	old := s.findReplaced(first, added, family, replaces)
	if old == nil {
		return nil
	}
	if s.catchUp && replaces && !old.sameAs(added) {
		s.raced = true
	}
	if !replaces && (dumped || !added.ecmp) && !(*first).alone() {
		// Move it to its place in the order of the dump. As an event: Linux does not add a
		// duplicate, so it had deleted the old route without an event.
		s.dropMatching(first, added.priority, func(r *route) bool { return r == old })
		return nil
	}
	if added.ecmp && old.hop.mtu != added.hop.mtu {
		s.suspects.addAll() // in Linux each path has an MTU; the message has that of the first or the added path
	}
	return old
}

// insertRoute inserts a route as the first or the last of its priority.
func insertRoute(first **route, added route, last bool) {
	at := first
	for last && *at != nil && (*at).priority == added.priority {
		at = &(*at).next
	}
	r := new(route)
	*r = added
	r.next = *at
	*at = r
}

// alone reports whether the first route of a priority is also the last.
func (r *route) alone() bool { return r.next == nil || r.next.priority != r.priority }

// deleteRoute applies the deletion of a route.
func (s *state) deleteRoute(r *rtnl.Route) {
	if r.Table == charonTable && s.tableOf(r.Table) == nil {
		s.setCharonRoute(r, true)
	}
	follows := s.follows(r)
	s.permitReport(r)
	if !follows {
		return
	}
	e := s.edit(s.tableOf(r.Table), r.Dst)
	at := s.find(&e.head, r)
	if r.Family == unix.AF_INET6 { // the message has the current MTU, which Linux changes without an event
		for known := e.head; *at == nil && known != nil; known = known.next {
			r.MTU = uint32(known.hop.mtu)
			at = s.find(&e.head, r)
		}
	}
	old := *at
	if old == nil {
		return // already deleted by a dump or another event
	}
	if s.catchUp && r.Family == unix.AF_INET6 {
		s.raced = true // an IPv6 dump skips routes when others are deleted meanwhile
	}
	rest := &rtnl.Route{Family: r.Family, Type: unix.RTN_UNICAST, MTU: uint32(old.hop.mtu), Paths: s.remainingPaths(old, r)}
	if len(rest.Paths) > 0 && !s.suppress(rest) {
		hop := old.hop
		old.hop = s.hopOf(rest, hop)
		s.release(hop)
	} else {
		*at = old.next
		s.forgetRoute(old)
	}
	s.finish(&e)
}

// remainingPaths returns the paths of an IPv6 multipath route after the deletion of some.
func (s *state) remainingPaths(r *route, deleted *rtnl.Route) (rest []rtnl.Path) {
	if !r.ecmp {
		return nil
	}
	for _, p := range r.hop.paths {
		if !slices.ContainsFunc(deleted.Paths, func(d rtnl.Path) bool { return d.Index == p.link && d.Gateway == p.gateway }) {
			rest = append(rest, rtnl.Path{
				Index: p.link, Gateway: p.gateway, Weight: uint16(p.weight), Encap: p.encap,
				Dead: p.dead || !s.isAdminUp(p.link),
			})
		}
	}
	return rest
}

// keepRoute keeps a route of a dump from the sweep, as Linux has it.
func (s *state) keepRoute(r *rtnl.Route) {
	is := s.newRoute(r, s.findHop(r))
	for known, _ := s.tableOf(r.Table).routes.Get(r.Dst); known != nil; known = known.next {
		if known.identifiedBy(&is, r) {
			known.seen = s.dumpSeq
			if known.hop.object == 0 && known.hop != is.hop {
				s.suspects.addAll() // a path is gone
			}
		}
	}
}
