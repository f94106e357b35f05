package mirror

import (
	"iter"
	"net/netip"

	"github.com/warproute/warproute/fib"
)

// dirty collects the prefixes of a family to write to the table.
type dirty struct {
	prefixes []netip.Prefix // with duplicates
	all      bool           // write the whole table
}

// The whole table is written if there are more changes than fewChanges and than one in
// changeShare of its routes: that is faster.
const (
	fewChanges  = 4096
	changeShare = 8
)

// table is a lookup table of either family.
type table interface {
	Insert(netip.Prefix, fib.ID) error
	Delete(netip.Prefix) bool
	Load(iter.Seq2[netip.Prefix, fib.ID]) error
	Len() int
}

// familyOf returns the index of an address family in arrays by family: IPv4, IPv6.
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

// markDirty records that the best route of a prefix changed.
func (s *state) markDirty(p netip.Prefix) {
	s.markHostDirty(p)
	if !p.IsSingleIP() {
		s.markNeighborsDirty(p)
	}
}

// markHostDirty records a prefix without the host routes that it covers.
func (s *state) markHostDirty(p netip.Prefix) {
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

func (s *state) markAllHostsDirty() {
	for host := range s.resolved.All() {
		s.markHostDirty(host)
	}
}

// writeChanges writes dirty prefixes to the FIB, frees unreferenced entries, and commits the batch.
// It reports whether anything changed.
func (s *state) writeChanges() bool {
	if s.orphaned {
		s.orphaned = false
		s.sweepRoutes(func(_ netip.Prefix, r *route) bool { return r.hop.gone })
	}
	for family := range s.dirty {
		d := &s.dirty[family]
		if d.all {
			s.rewriteTable(family)
		} else {
			for _, p := range d.prefixes {
				s.writePrefix(p)
			}
		}
		d.prefixes, d.all = d.prefixes[:0], false
	}
	s.freeHops()
	s.reportTunnels()
	changed := s.changed
	s.changed = false
	if changed {
		s.fib.Commit()
	}
	return changed
}

// writePrefix writes the best route of a prefix to its table, or deletes it.
func (s *state) writePrefix(p netip.Prefix) {
	s.changed = true
	best := s.best(p)
	t := s.table(familyOf(p.Addr()))
	if best == nil {
		t.Delete(p)
		return
	}
	if err := t.Insert(p, s.idOf(best)); err != nil {
		s.warnOnce("insert", "routes missing: "+err.Error())
	}
}

// best returns the next hop of a prefix: that of its best route, or of the resolved neighbor with
// this address if that route is on its link; nil for none.
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

// idOf returns the index of a hop, or of a dropping hop if the next-hop table was full.
func (s *state) idOf(h *hop) fib.ID {
	if h.id != 0 {
		return h.id
	}
	return s.fallbackHop.id
}

// rewriteTable replaces the whole table of a family.
func (s *state) rewriteTable(family int) {
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
		s.warnOnce("insert", "routes missing: "+err.Error())
	}
}

// setHost adds, changes or deletes the hop of a neighbor's host route.
func (s *state) setHost(ip netip.Addr) {
	var next *hop
	if _, resolved := s.resolved.Get(netip.PrefixFrom(ip, ip.BitLen())); resolved {
		if id, mtu, ok := s.hostNeighbor(ip); ok {
			next = s.hostHop(id, mtu)
		}
	}
	if old := s.hosts[ip]; old != nil {
		s.release(old)
	}
	if next != nil {
		s.hosts[ip] = next
	} else {
		delete(s.hosts, ip)
	}
}

// setLocal adds or deletes a local address, and calls the hook.
func (s *state) setLocal(ip netip.Addr, local bool) {
	_, known := s.locals[ip]
	hook := s.hooks.AddLocal
	switch {
	case local == known:
		return
	case local:
		s.locals[ip] = struct{}{}
	default:
		delete(s.locals, ip)
		hook = s.hooks.DeleteLocal
	}
	if hook == nil {
		return
	}
	if err := hook(ip); err != nil {
		s.warnOnce("hook", "local address not registered, its packets may not reach Linux: "+err.Error())
	}
}
