package mirror

import (
	"slices"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// object is a next-hop object of Linux.
type object struct {
	rtnl.Nexthop
	seen uint32
}

func (s *state) setObject(r *rtnl.Nexthop) {
	if r.FDB {
		return // a bridge's
	}
	s.objects[r.ID] = &object{*r, s.epoch}
	s.programObjects(r.ID)
	for group, o := range s.objects {
		if o.has(r.ID) {
			s.programObjects(group)
		}
	}
}

// deleteObject forgets an object, and groups of which it was the last member.
// Linux drops the routes that use them without telling (IPv4) or tells later
// (IPv6); flush drops them here.
func (s *state) deleteObject(id uint32) {
	if s.objects[id] == nil {
		return
	}
	delete(s.objects, id)
	for _, h := range slices.Clone(s.ofObject[id]) {
		// Routes that come from now on mean a new object with the same number.
		s.unlist(h)
		h.gone = true
		s.orphaned = s.orphaned || h.refs > 0
	}
	for group, o := range s.objects {
		if !o.has(id) {
			continue
		}
		o.Group = slices.DeleteFunc(o.Group, func(m rtnl.Member) bool { return m.ID == id })
		if len(o.Group) == 0 {
			s.deleteObject(group)
		} else {
			s.programObjects(group)
		}
	}
}

// deleteObjectsOver does what Linux does without telling when a link goes down
// or loses its carrier (nexthop_flush_dev).
func (s *state) deleteObjectsOver(link int) {
	for id, o := range s.objects {
		if o.Group == nil && o.Hop.Index == link {
			s.deleteObject(id)
		}
	}
}

func (o *object) has(member uint32) bool {
	return slices.ContainsFunc(o.Group, func(m rtnl.Member) bool { return m.ID == member })
}

// programObjects writes the hops of an object: one for each MTU that its routes have.
func (s *state) programObjects(id uint32) {
	for _, h := range s.ofObject[id] {
		s.programObject(h)
	}
}

// programObject writes the hop of an object as the object is now.
func (s *state) programObject(h *hop) {
	old := h.paths
	kind, paths := s.expand(h.object)
	s.program(h, kind, paths)
	if slices.ContainsFunc(old, onLink) || slices.ContainsFunc(paths, onLink) {
		s.touchAllHosts()
	}
}

func onLink(p path) bool { return p.onLink() }

// expand says where an object leads to.
func (s *state) expand(id uint32) (fib.Kind, []path) {
	o := s.objects[id]
	switch {
	case o == nil:
		return fib.KindNone, nil
	case o.Blackhole:
		return fib.KindBlackhole, nil
	case o.Group == nil:
		return fib.KindForward, pathsOf([]rtnl.Hop{o.Hop})
	}
	kind, paths := fib.KindNone, []path(nil)
	for _, m := range o.Group {
		member := s.objects[m.ID]
		switch {
		case member == nil: // not dumped yet
		case member.Blackhole:
			kind = fib.KindBlackhole
		default:
			kind = fib.KindForward
			p := pathsOf([]rtnl.Hop{member.Hop})[0]
			p.weight = m.Weight
			paths = append(paths, p)
		}
	}
	return kind, paths
}
