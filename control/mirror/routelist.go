package mirror

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// routeEdit is a change to the list of a prefix's routes.
type routeEdit struct {
	table         *table
	prefix        netip.Prefix
	head, oldHead *route
	oldHop        *hop
}

func (s *state) edit(t *table, p netip.Prefix) routeEdit {
	head, _ := t.routes.Get(p)
	return routeEdit{t, p, head, head, hopAt(head)}
}

// first returns the place in the list where the routes of a priority begin.
func (e *routeEdit) first(priority uint64) **route {
	at := &e.head
	for *at != nil && (*at).priority < priority {
		at = &(*at).next
	}
	return at
}

// finish stores the list, and marks the prefix dirty if its next hop changed.
func (s *state) finish(e *routeEdit) {
	switch {
	case e.head == nil && e.oldHead != nil:
		e.table.routes.Delete(e.prefix)
	case e.head != e.oldHead:
		e.table.routes.Insert(e.prefix, e.head)
	}
	if hopAt(e.head) != e.oldHop {
		s.markDirty(e.table, e.prefix)
	}
}

// dropMatching drops the routes of a priority that match.
func (s *state) dropMatching(at **route, priority uint64, matches func(*route) bool) {
	for *at != nil && (*at).priority == priority {
		if r := *at; matches(r) {
			*at = r.next
			s.forgetRoute(r)
		} else {
			at = &r.next
		}
	}
}

// forgetRoute drops the references of a route that was removed from its list.
func (s *state) forgetRoute(r *route) {
	s.release(r.hop)
	if r.src.Is4() {
		if s.sources[r.src]--; s.sources[r.src] == 0 {
			delete(s.sources, r.src)
		}
	}
}

// sweepRoutes drops all routes that match, and reports whether any of them shared its priority.
func (s *state) sweepRoutes(matches func(netip.Prefix, *route) bool) (shared bool) {
	for _, t := range s.allTables() {
		shared = s.sweepTable(t, matches) || shared
	}
	return shared
}

func (s *state) sweepTable(t *table, matches func(netip.Prefix, *route) bool) (shared bool) {
	var found []netip.Prefix // the table must not change during the iteration
	for p, r := range t.routes.All() {
		for ; r != nil; r = r.next {
			if matches(p, r) {
				found = append(found, p)
				break
			}
		}
	}
	for _, p := range found {
		e := s.edit(t, p)
		for at := &e.head; *at != nil; {
			if r := *at; matches(p, r) {
				shared = shared || !r.alone()
				*at = r.next
				s.forgetRoute(r)
			} else {
				shared = shared || !r.alone() && matches(p, r.next)
				at = &r.next
			}
		}
		s.finish(&e)
	}
	return shared
}

// findReplaced returns the route of a priority that a new one is equal to or replaces.
func (s *state) findReplaced(at **route, is *route, family uint8, replaces bool) *route {
	var same, first *route
	for r := *at; r != nil && r.priority == is.priority && same == nil; r = r.next {
		if first == nil {
			first = r
		}
		switch {
		case family == unix.AF_INET:
			if r.sameAs(is) {
				same = r
			}
		case is.ecmp, replaces && is.hop.object == 0: // of an object, the object alone could have changed
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

// sameAs reports whether two routes of a prefix are equal to Linux. The type of a route by a
// next-hop object changes with the object.
func (r *route) sameAs(other *route) bool {
	return r.priority == other.priority && (r.kind == other.kind || r.hop.object != 0) && r.protocol == other.protocol &&
		r.scope == other.scope && r.src == other.src && r.hop.bare == other.hop.bare && r.metrics == other.metrics
}

// joins reports whether a single-path route is one of the paths of a new multipath route.
func (r *route) joins(is *route) bool {
	return is.ecmp && r.hop.object == 0 && len(r.hop.paths) == 1 && is.hop.hasGateway(r.hop.paths[0].link, r.hop.paths[0].gateway)
}

// find returns the place in a list of the route that a message identifies, the end if none.
func (s *state) find(at **route, r *rtnl.Route) **route {
	is := s.newRoute(r, s.findHop(r))
	for *at != nil && !(*at).identifiedBy(&is, r) {
		at = &(*at).next
	}
	return at
}

// identifiedBy reports whether a message, parsed into is, identifies this route.
func (r *route) identifiedBy(is *route, msg *rtnl.Route) bool {
	switch {
	case r.priority != is.priority:
		return false
	case msg.NexthopID != 0: // the object may have changed
		return r.hop.object == msg.NexthopID && r.hop.mtu == mtuOf(msg)
	case is.ecmp:
		return r.ecmp
	case r.ecmp && len(msg.Paths) == 1: // added by a daemon, see isECMP
		return r.hop.hasGateway(msg.Paths[0].Index, msg.Paths[0].Gateway)
	case msg.Family == unix.AF_INET6: // Linux changes the preferred source without an event
		return r.kind == is.kind && r.hop.bare == is.hop.bare
	}
	return r.sameAs(is)
}

// best returns the active route of a list, nil if empty: the first with the highest preference
// (rt6_score_route).
func (r *route) best() *route {
	best := r
	for ; r != nil && r.priority == best.priority; r = r.next {
		if r.pref > best.pref {
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
