package mirror

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// A port whose link is in a VRF stays a port, and its packets are looked up in the table of the VRF. Routes of this
// table can lead to any port (route leaking), as in Linux. A packet without a route there is dropped: it never
// continues in table main, as it would in Linux unless the VRF has a default route.
//
// A table is used when all its routes are read. Until then, and if the router cannot use it, packets of the VRF's
// ports are dropped as no_table. On an IPsec gateway a port in a VRF is paused: see pause.go.

// table is a routing table that the router follows: that of VRFs, or main with local and default.
type table struct {
	id       uint32 // of Linux; RT_TABLE_MAIN for main
	vrf      uint16 // number in the FIB; 0 for main
	links    []int  // VRFs with this table
	rules    int    // combined tables with this one
	complete bool   // all routes are read

	routes bart.Table[*route]      // routes of each prefix, by priority
	hosts  map[netip.Addr]*hop     // of the resolved neighbors, the ones with host routes in the table
	locals map[netip.Addr]struct{} // local addresses
	dirty  [2]dirty                // IPv4, IPv6
}

func newTable(id uint32, vrf uint16) *table {
	return &table{id: id, vrf: vrf, hosts: map[netip.Addr]*hop{}, locals: map[netip.Addr]struct{}{}}
}

// tableOf returns the table of a route, nil if the router does not follow it.
func (s *state) tableOf(id uint32) *table {
	if _, ok := tables[id]; ok {
		return s.main
	}
	return s.vrfs[id]
}

// all returns the prefixes of a family with routes, then those of neighbors without.
func (t *table) all(family int) iter.Seq[netip.Prefix] {
	routes := t.routes.All4
	if family == 1 {
		routes = t.routes.All6
	}
	return func(yield func(netip.Prefix) bool) {
		for p := range routes() {
			if !yield(p) {
				return
			}
		}
		for ip := range t.hosts {
			p := netip.PrefixFrom(ip, ip.BitLen())
			if _, ok := t.routes.Get(p); familyOf(ip) == family && !ok && !yield(p) {
				return
			}
		}
	}
}

// hopOf returns the next hop of a prefix in the FIB, nil for none.
func (t *table) hopOf(p netip.Prefix) *hop {
	if p.IsSingleIP() {
		if h := t.hosts[p.Addr()]; h != nil {
			return h
		}
	}
	head, _ := t.routes.Get(p)
	return hopAt(head)
}

// has reports whether the table has a prefix.
func (t *table) has(p netip.Prefix) bool { return t.hopOf(p) != nil }

// allTables returns main and the tables of VRFs.
func (s *state) allTables() []*table {
	all := make([]*table, 1, 1+len(s.vrfs))
	all[0] = s.main
	for _, t := range s.vrfs {
		all = append(all, t)
	}
	return all
}

// inTable returns the lookup table of a family in the FIB.
func (s *state) inTable(t *table, family int) lookupTable {
	switch {
	case t.vrf != 0 && family == 0:
		return s.fib.IPv4.VRF(int(t.vrf))
	case t.vrf != 0:
		return s.fib.IPv6.VRF(int(t.vrf))
	case family == 0:
		return s.fib.IPv4
	}
	return s.fib.IPv6
}

// claimed reports whether Linux routes packets received on a link as packets of a master that the router does not
// follow.
func (s *state) claimed(l *rtnl.Link) bool {
	return l.Claimed() && !(l.InVRF() && s.hooks.VRFs)
}

// routed reports whether Linux routes packets received on a link as its own, by the table of its VRF if it is in one.
func (s *state) routed(l *rtnl.Link) bool { return l.Master == 0 || l.InVRF() && s.hooks.VRFs }

// setVRFTable follows the table of a link that is a VRF, and stops following its previous one. A link of another kind
// has the table 0.
func (s *state) setVRFTable(l *link, id uint32) {
	if l.vrfTable == id {
		return
	}
	was := l.vrfTable
	l.vrfTable = id
	if t := s.vrfs[was]; t != nil {
		t.links = slices.DeleteFunc(t.links, func(index int) bool { return index == l.Index })
		s.updateVRFs() // before the number is free
		s.dropUnused(t)
	}
	if id != 0 && s.hooks.VRFs {
		s.followVRF(l, id)
	}
	s.updateVRFs()
}

// followVRF follows the table of a VRF, if that is possible.
func (s *state) followVRF(l *link, id uint32) {
	if _, own := tables[id]; own {
		s.warnOnce("vrf "+l.Name, fmt.Sprintf("VRF %s has table %d, which is not its own: packets of its ports are dropped as no_table; delete it, and create it with another table", l.Name, id))
		return
	}
	t, err := s.follow(id)
	if err != nil {
		s.warnOnce("vrfs", fmt.Sprintf("packets of the ports of VRF %s are dropped as no_table: %v", l.Name, err))
		return
	}
	t.links = append(t.links, l.Index)
}

// follow returns the table with an ID of Linux, which it follows from now on.
func (s *state) follow(id uint32) (*table, error) {
	s.noTable() // has the first number
	if t := s.vrfs[id]; t != nil {
		return t, nil
	}
	vrf, err := s.fib.NewVRF()
	if err != nil {
		return nil, err
	}
	t := newTable(id, vrf)
	s.vrfs[id] = t
	s.suspects.tables = true // its routes were ignored
	return t, nil
}

// dropUnused drops the routes of a table without VRFs and rules, and frees its number.
func (s *state) dropUnused(t *table) {
	if len(t.links)+t.rules > 0 {
		return
	}
	delete(s.vrfs, t.id)
	for _, head := range t.routes.All() {
		for r := head; r != nil; r = r.next {
			s.forgetRoute(r)
		}
	}
	for _, h := range t.hosts {
		s.release(h)
	}
	for ip := range t.locals {
		s.setLocal(t, ip, false)
	}
	s.fib.FreeVRF(t.vrf)
	s.changed = true
}

// readTables dumps the routes of VRFs that were not read so far. Changes during the dumps follow as events.
func (m *Mirror) readTables() error {
	for _, t := range m.vrfs {
		for _, f := range families {
			if t.complete {
				continue
			}
			err := m.conn.Dump(rtnl.Routes(f).In(t.id), m.state.handle)
			if err != nil && !errors.Is(err, unix.ENOENT) { // Linux creates a table with its first route
				return err
			}
		}
	}
	m.writeChanges()
	m.tablesRead()
	m.catchingUp()
	return nil
}

// tablesRead uses the tables, all of whose routes were dumped and written.
func (s *state) tablesRead() {
	for _, t := range s.vrfs {
		t.complete = true
	}
	s.updateVRFs()
}

// updateVRFs updates the VRFs of all ports, and frees combined tables without ports.
func (s *state) updateVRFs() {
	for _, c := range s.combined {
		c.used = false
	}
	for _, l := range s.links {
		if l.port >= 0 && l.Kind != "macvlan" {
			s.setPortVRF(l.port, l)
		}
	}
	for _, c := range s.combined {
		if !c.used {
			c.drop(s)
		}
	}
}

// setPortVRF writes the VRF of a port's link to the FIB.
func (s *state) setPortVRF(number int, l *link) {
	if vrf := s.vrfOf(number, &l.Link); vrf != s.fib.PortVRF(uint16(number)) {
		s.fib.SetPortVRF(uint16(number), vrf)
		s.changed = true
	}
}

// vrfOf returns the number of the table in the FIB for packets that a port receives on a link, 0 for main.
func (s *state) vrfOf(port int, l *rtnl.Link) uint16 {
	if len(s.rules) > 0 {
		if vrf := s.vrfByRules(port, l); vrf != 0 {
			return vrf
		}
	}
	if !l.InVRF() || !s.hooks.VRFs {
		return 0
	}
	if master := s.links[l.Master]; master != nil {
		if t := s.vrfs[master.vrfTable]; t != nil && t.complete {
			return t.vrf
		}
	}
	return s.noTable()
}

// closePort drops packets that are still received by a port in a VRF, whose link is gone.
func (s *state) closePort(number int) {
	if s.fib.PortVRF(uint16(number)) != 0 {
		s.fib.SetPortVRF(uint16(number), s.noTable())
	}
}

// noTable returns the number of the VRF whose packets are dropped as no_table. It is allocated before all others.
func (s *state) noTable() uint16 {
	if s.missing != 0 {
		return s.missing
	}
	s.missing, _ = s.fib.NewVRF() // the first never fails
	vrf := s.missing
	if id, err := s.fib.NewNextHop(fib.KindNoTable); err == nil { // without it, they are dropped as no_route
		_ = s.fib.IPv4.VRF(int(vrf)).Insert(netip.PrefixFrom(netip.IPv4Unspecified(), 0), id)
		_ = s.fib.IPv6.VRF(int(vrf)).Insert(netip.PrefixFrom(netip.IPv6Unspecified(), 0), id)
	}
	return s.missing
}
