package mirror

import (
	"slices"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// object is a next-hop object of Linux (RTM_NEWNEXTHOP).
type object struct {
	rtnl.NexthopObject
	seen uint32
}

func (s *state) setObject(r *rtnl.NexthopObject) {
	if r.FDB {
		return // of a bridge
	}
	s.objects[r.ID] = &object{*r, s.dumpSeq}
	s.programObjects(r.ID)
	for group, o := range s.objects {
		if o.has(r.ID) {
			s.programObjects(group)
		}
	}
}

// deleteObject deletes an object, and groups that become empty. Linux deletes the routes that
// use them without an event (IPv4) or with a later one (IPv6); writeChanges deletes them here.
func (s *state) deleteObject(id uint32) {
	if s.objects[id] == nil {
		return
	}
	delete(s.objects, id)
	for _, h := range slices.Clone(s.ofObject[id]) {
		// Later routes with this ID belong to a new object.
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

// deleteObjectsOver deletes the objects that Linux deletes without an event when a link goes
// down or loses its carrier (nexthop_flush_dev).
func (s *state) deleteObjectsOver(link int) {
	for id, o := range s.objects {
		if o.Group == nil && o.Path.Index == link {
			s.deleteObject(id)
		}
	}
}

func (o *object) has(member uint32) bool {
	return slices.ContainsFunc(o.Group, func(m rtnl.Member) bool { return m.ID == member })
}

// programObjects writes the hops of an object: one per MTU of its routes.
func (s *state) programObjects(id uint32) {
	for _, h := range s.ofObject[id] {
		s.programObject(h)
	}
}

// programObject writes the hop of an object.
func (s *state) programObject(h *hop) {
	old := h.paths
	kind, paths := s.expand(h.object)
	s.program(h, kind, paths)
	if slices.ContainsFunc(old, onLink) || slices.ContainsFunc(paths, onLink) {
		s.markAllHostsDirty()
	}
}

func onLink(p path) bool { return p.onLink() }

// expand returns the kind and the paths of an object.
func (s *state) expand(id uint32) (fib.Kind, []path) {
	o := s.objects[id]
	switch {
	case o == nil:
		return fib.KindNone, nil
	case o.Blackhole:
		return fib.KindBlackhole, nil
	case o.Group == nil:
		return fib.KindForward, pathsOf([]rtnl.Path{o.Path})
	}
	kind, paths := fib.KindNone, []path(nil)
	for _, m := range o.Group {
		member := s.objects[m.ID]
		switch {
		case member == nil: // not in the dump so far
		case member.Blackhole:
			kind = fib.KindBlackhole
		default:
			kind = fib.KindForward
			p := pathsOf([]rtnl.Path{member.Path})[0]
			p.weight = m.Weight
			paths = append(paths, p)
		}
	}
	return kind, paths
}
