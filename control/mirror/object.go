package mirror

import (
	"encoding/binary"
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
	s.objectChanged(r.ID)
}

// deleteObject forgets an object. Linux drops the routes that use it without
// telling (IPv4) or tells later (IPv6); flush drops them here.
func (s *state) deleteObject(id uint32) {
	if s.objects[id] == nil {
		return
	}
	delete(s.objects, id)
	if h := s.hopOfObject(id); h != nil {
		// Routes that come from now on mean a new object with the same number.
		delete(s.hops, h.key)
		h.gone = true
		s.orphaned = s.orphaned || h.refs > 0
	}
	s.groupsChanged(id)
}

func (s *state) hopOfObject(id uint32) *hop {
	s.key = binary.NativeEndian.AppendUint32(append(s.key[:0], keyObject), id)
	return s.hops[string(s.key)]
}

// objectChanged writes the hops again that an object is part of.
func (s *state) objectChanged(id uint32) {
	if h := s.hopOfObject(id); h != nil {
		s.programObject(h)
	}
	s.groupsChanged(id)
}

func (s *state) groupsChanged(member uint32) {
	for id, o := range s.objects {
		if slices.ContainsFunc(o.Group, func(m rtnl.Member) bool { return m.ID == member }) {
			if h := s.hopOfObject(id); h != nil {
				s.programObject(h)
			}
		}
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
		case member == nil: // deleted; Linux tells about the group next
		case member.Blackhole:
			kind = fib.KindBlackhole
		default:
			kind = fib.KindForward
			p := pathsOf([]rtnl.Hop{member.Hop})[0]
			p.weight = uint32(m.Weight)
			paths = append(paths, p)
		}
	}
	return kind, paths
}
