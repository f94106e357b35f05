package mirror

import (
	"iter"
	"net/netip"

	"github.com/warproute/warproute/fib"
)

// dirty are the prefixes of a family whose next hop in the base may be wrong.
type dirty struct {
	prefixes []netip.Prefix // some perhaps twice
	all      bool           // too many to list
}

// Writing a table as a whole is cheaper than writing more changes than this, and
// than this share of its routes.
const (
	fewChanges  = 4096
	changeShare = 8
)

// table is what the lookup tables of both families have in common.
type table interface {
	Insert(netip.Prefix, fib.ID) error
	Delete(netip.Prefix) bool
	Load(iter.Seq2[netip.Prefix, fib.ID]) error
	Len() int
}

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}

func (s *state) table(family int) table {
	if family == 0 {
		return s.fib.IPv4
	}
	return s.fib.IPv6
}

// touch notes that the best route of a prefix changed.
func (s *state) touch(p netip.Prefix) {
	s.touchHost(p)
	if !p.IsSingleIP() {
		s.touchNeighbors(p)
	}
}

// touchHost notes a prefix, but none below it.
func (s *state) touchHost(p netip.Prefix) {
	family := familyOf(p.Addr())
	d := &s.dirty[family]
	switch {
	case d.all:
	case len(d.prefixes) >= fewChanges && len(d.prefixes) >= s.table(family).Len()/changeShare:
		d.prefixes, d.all = nil, true
	default:
		d.prefixes = append(d.prefixes, p)
	}
}

func (s *state) touchAllHosts() {
	for host := range s.resolved.All() {
		s.touchHost(host)
	}
}

// flush writes what changed to the base, frees what nothing refers to any more,
// and lets held packets try again. It reports whether anything had changed.
func (s *state) flush() bool {
	if s.orphaned {
		s.orphaned = false
		s.sweepRoutes(func(_ netip.Prefix, r *route) bool { return r.hop.gone })
	}
	for family := range s.dirty {
		d := &s.dirty[family]
		if d.all {
			s.load(family)
		} else {
			for _, p := range d.prefixes {
				s.write(p)
			}
		}
		d.prefixes, d.all = d.prefixes[:0], false
	}
	s.freeHops()
	changed := s.changed
	s.changed = false
	if changed {
		s.fib.Bump()
	}
	return changed
}

// write brings the base up to date with one prefix.
func (s *state) write(p netip.Prefix) {
	s.changed = true
	best := s.best(p)
	t := s.table(familyOf(p.Addr()))
	if best == nil {
		t.Delete(p)
		return
	}
	if err := t.Insert(p, s.idOf(best)); err != nil {
		s.warnOnce("insert", "some routes are missing: "+err.Error())
	}
}

// best returns the next hop that a prefix has in the base, nil for none: that of
// its best route, or of the neighbour itself where that route is on its link.
func (s *state) best(p netip.Prefix) *hop {
	head, _ := s.routes.Get(p)
	best := hopAt(head)
	if !p.IsSingleIP() {
		return best
	}
	ip := p.Addr()
	s.setLocal(ip, best != nil && best.kind == fib.KindLocal)
	s.setHost(ip)
	if h := s.hosts[ip]; h != nil {
		return h
	}
	return best
}

// idOf returns the number of a hop; where the base had no room for it, that of
// one that drops.
func (s *state) idOf(h *hop) fib.ID {
	if h.id != 0 {
		return h.id
	}
	return s.noRoom.id
}

// load writes the table of a family as a whole.
func (s *state) load(family int) {
	s.changed = true
	for host := range s.resolved.All() {
		if familyOf(host.Addr()) == family {
			s.best(host)
		}
	}
	for ip := range s.hosts {
		if familyOf(ip) == family {
			s.best(netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	for ip := range s.locals {
		if familyOf(ip) == family {
			s.best(netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	routes := s.routes.All4
	if family == 1 {
		routes = s.routes.All6
	}
	err := s.table(family).Load(func(yield func(netip.Prefix, fib.ID) bool) {
		for p, head := range routes() {
			best := hopAt(head)
			if p.IsSingleIP() {
				if best.kind == fib.KindLocal {
					s.setLocal(p.Addr(), true)
				}
				if s.hosts[p.Addr()] != nil {
					continue
				}
			}
			if !yield(p, s.idOf(best)) {
				return
			}
		}
		for ip, h := range s.hosts {
			if familyOf(ip) == family && !yield(netip.PrefixFrom(ip, ip.BitLen()), s.idOf(h)) {
				return
			}
		}
	})
	if err != nil {
		s.warnOnce("insert", "some routes are missing: "+err.Error())
	}
}

// setHost makes, changes or takes away the hop of a neighbour's host route.
func (s *state) setHost(ip netip.Addr) {
	var is *hop
	if _, resolved := s.resolved.Get(netip.PrefixFrom(ip, ip.BitLen())); resolved {
		if id, mtu, ok := s.hostNeighbor(ip); ok {
			is = s.hostHop(id, mtu)
		}
	}
	if was := s.hosts[ip]; was != nil {
		s.release(was)
	}
	if is != nil {
		s.hosts[ip] = is
	} else {
		delete(s.hosts, ip)
	}
}

// setLocal keeps the hooks' set of local addresses.
func (s *state) setLocal(ip netip.Addr, is bool) {
	_, was := s.locals[ip]
	hook := s.hooks.AddLocal
	switch {
	case is == was:
		return
	case is:
		s.locals[ip] = struct{}{}
	default:
		delete(s.locals, ip)
		hook = s.hooks.DeleteLocal
	}
	if hook == nil {
		return
	}
	if err := hook(ip); err != nil {
		s.warnOnce("hook", "local addresses may not reach Linux: "+err.Error())
	}
}
