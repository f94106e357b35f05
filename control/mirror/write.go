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

// lookupTable is a lookup table of the FIB, of either family.
type lookupTable interface {
	Insert(netip.Prefix, fib.NextHopID) error
	Delete(netip.Prefix) bool
	Load(iter.Seq2[netip.Prefix, fib.NextHopID]) error
	Len() int
	LookupPrefix(netip.Addr) (netip.Prefix, fib.NextHopID, bool)
}

// familyOf returns the index of an address family in arrays by family: IPv4, IPv6.
func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}

// markDirty records that the best route of a prefix changed.
func (s *state) markDirty(t *table, p netip.Prefix) {
	s.markHostDirty(t, p)
	if !p.IsSingleIP() {
		s.markNeighborsDirty(t, p)
	}
}

// markHostDirty records a prefix without the host routes that it covers.
func (s *state) markHostDirty(t *table, p netip.Prefix) {
	family := familyOf(p.Addr())
	d := &t.dirty[family]
	switch {
	case d.all:
	case len(d.prefixes) >= fewChanges && len(d.prefixes) >= s.inTable(t, family).Len()/changeShare:
		d.prefixes, d.all = nil, true
	default:
		d.prefixes = append(d.prefixes, p)
	}
}

func (s *state) markAllHostsDirty() {
	for host := range s.resolved.All() {
		s.markHostDirtyInAll(host)
	}
}

// markHostDirtyInAll records the host route of a neighbor in all tables.
func (s *state) markHostDirtyInAll(host netip.Prefix) {
	s.markHostDirty(s.main, host)
	for _, t := range s.vrfs {
		s.markHostDirty(t, host)
	}
}

// writeChanges writes dirty prefixes to the FIB, frees unreferenced entries, and commits the batch.
// It reports whether anything changed.
func (s *state) writeChanges() bool {
	if s.orphaned {
		s.orphaned = false
		s.sweepRoutes(func(_ netip.Prefix, r *route) bool { return r.hop.gone })
	}
	s.writeTable(s.main)
	for _, t := range s.vrfs {
		s.writeTable(t)
	}
	for _, c := range s.combined {
		if c.built {
			c.write(s)
		}
	}
	for _, t := range s.allTables() {
		t.clean()
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

// writeTable writes dirty prefixes of a table.
func (s *state) writeTable(t *table) {
	for family := range t.dirty {
		d := &t.dirty[family]
		if d.all {
			s.rewriteTable(t, family)
		} else {
			for _, p := range d.prefixes {
				s.writePrefix(t, p)
			}
		}
	}
}

// clean forgets the dirty prefixes, which were written.
func (t *table) clean() {
	for family := range t.dirty {
		d := &t.dirty[family]
		d.prefixes, d.all = d.prefixes[:0], false
	}
}

// writePrefix writes the best route of a prefix to its table, or deletes it.
func (s *state) writePrefix(t *table, p netip.Prefix) {
	s.changed = true
	best := s.best(t, p)
	to := s.inTable(t, familyOf(p.Addr()))
	if best == nil {
		to.Delete(p)
		return
	}
	if err := to.Insert(p, s.idOf(best)); err != nil {
		s.warnOnce("insert", "routes missing: "+err.Error())
	}
}

// best returns the next hop of a prefix: that of its best route, or of the resolved neighbor with
// this address if that route is on its link; nil for none.
func (s *state) best(t *table, p netip.Prefix) *hop {
	head, _ := t.routes.Get(p)
	best := hopAt(head)
	if !p.IsSingleIP() {
		return best
	}
	ip := p.Addr()
	s.setLocal(t, ip, best != nil && best.kind == fib.KindLocal)
	s.setHost(t, ip)
	if h := t.hosts[ip]; h != nil {
		return h
	}
	return best
}

// idOf returns the index of a hop, or of a dropping hop if the next-hop table was full.
func (s *state) idOf(h *hop) fib.NextHopID {
	if h.id != 0 {
		return h.id
	}
	return s.fallbackHop.id
}

// rewriteTable replaces the whole table of a family.
func (s *state) rewriteTable(t *table, family int) {
	s.changed = true
	for host := range s.resolved.All() {
		if familyOf(host.Addr()) == family {
			s.best(t, host)
		}
	}
	for ip := range t.hosts {
		if familyOf(ip) == family {
			s.best(t, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	for ip := range t.locals {
		if familyOf(ip) == family {
			s.best(t, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	routes := t.routes.All4
	if family == 1 {
		routes = t.routes.All6
	}
	err := s.inTable(t, family).Load(func(yield func(netip.Prefix, fib.NextHopID) bool) {
		for p, head := range routes() {
			best := hopAt(head)
			if p.IsSingleIP() {
				if best.kind == fib.KindLocal {
					s.setLocal(t, p.Addr(), true)
				}
				if t.hosts[p.Addr()] != nil {
					continue
				}
			}
			if !yield(p, s.idOf(best)) {
				return
			}
		}
		for ip, h := range t.hosts {
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
func (s *state) setHost(t *table, ip netip.Addr) {
	var next *hop
	if _, resolved := s.resolved.Get(netip.PrefixFrom(ip, ip.BitLen())); resolved {
		if id, mtu, ok := s.hostNeighbor(t, ip); ok {
			next = s.hostHop(id, mtu)
		}
	}
	if old := t.hosts[ip]; old != nil {
		s.release(old)
	}
	if next != nil {
		t.hosts[ip] = next
	} else {
		delete(t.hosts, ip)
	}
}

// setLocal adds or deletes a local address of a table, and calls the hook for the first and the last table.
func (s *state) setLocal(t *table, ip netip.Addr, local bool) {
	_, known := t.locals[ip]
	hook, calls := s.hooks.AddLocal, false
	switch {
	case local == known:
		return
	case local:
		t.locals[ip] = struct{}{}
		s.locals[ip]++
		calls = s.locals[ip] == 1
	default:
		delete(t.locals, ip)
		s.locals[ip]--
		hook = s.hooks.DeleteLocal
		if calls = s.locals[ip] == 0; calls {
			delete(s.locals, ip)
		}
	}
	if hook == nil || !calls {
		return
	}
	if err := hook(ip); err != nil {
		s.warnOnce("hook", "local address not registered, its packets may not reach Linux: "+err.Error())
	}
}
