package mirror

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// auditDelay is the time in which suspects are collected before an audit.
func (m *Mirror) auditDelay() time.Duration {
	if m.failed {
		return time.Second
	}
	return 2 * time.Millisecond
}

// suspects lists state that can differ from Linux without an event.
type suspects struct {
	all    bool
	tables bool                // routes of VRFs that were not read
	links  map[int]bool        // routes over these links
	addrs  map[netip.Addr]bool // deleted addresses: IPv4 routes with this preferred source
	again  int                 // consecutive races of events with a dump
}

func (s *suspects) any() bool { return s.all || s.tables || len(s.links)+len(s.addrs) > 0 }

func (s *suspects) addAll() { s.all = true }

func (s *suspects) addLink(index int) {
	if s.links == nil {
		s.links = map[int]bool{}
	}
	s.links[index] = true
}

// addAddr adds a deleted IPv4 address. With the last one of a link Linux deletes its routes.
func (s *suspects) addAddr(link int, ip netip.Addr) {
	s.addLink(link)
	if s.addrs == nil {
		s.addrs = map[netip.Addr]bool{}
	}
	s.addrs[ip] = true
}

var families = [...]uint8{unix.AF_INET, unix.AF_INET6}

// synchronize compares the whole state with Linux by mark and sweep. Changes during the dumps
// follow as events.
func (m *Mirror) synchronize() error {
	m.dumpSeq++
	m.suspects = suspects{again: m.suspects.again}
	m.charon = charon{changed: true}
	queries := []rtnl.Query{rtnl.Links(), rtnl.NexthopObjects()}
	for _, f := range families {
		queries = append(queries, rtnl.Neighbors(f), rtnl.Routes(f), rtnl.Rules(f))
	}
	if err := m.readForwarding(m.conn); err != nil {
		return err
	}
	for _, q := range queries {
		if err := m.conn.Dump(q, m.state.handle); err != nil {
			return err
		}
	}
	m.sweepRules()
	m.sweepLinks()
	m.sweepObjects()
	m.sweepNeighbors()
	m.sweepRoutes(func(_ netip.Prefix, r *route) bool { return r.seen != m.dumpSeq })
	m.writeChanges()
	m.suspects.tables = false // they were dumped with the others
	m.tablesRead()
	m.writeChanges()
	m.catchingUp()
	return nil
}

// resynchronize compares the whole state, and schedules a retry on failure.
func (m *Mirror) resynchronize() {
	m.loop.Stats().Resyncs++
	err := m.synchronize()
	if m.failed = err != nil; m.failed {
		m.log.Error("route resync failed, retrying", "err", err)
		m.writeChanges()
		m.suspects.addAll()
	}
}

// audit compares the suspects with Linux.
func (m *Mirror) audit() {
	todo := m.suspects
	for ip := range todo.addrs {
		todo.all = todo.all || m.sources[ip] > 0
	}
	if todo.all {
		m.resynchronize()
		return
	}
	if !todo.any() {
		return
	}
	m.suspects = suspects{again: todo.again}
	m.audits++
	err := m.auditLinks(todo.links)
	if err == nil && todo.tables {
		err = m.readTables()
	}
	if m.failed = err != nil; m.failed {
		m.log.Error("route resync failed, retrying", "err", err)
		m.suspects = todo
	}
	m.writeChanges()
}

// auditLinks compares next-hop objects, and deletes routes over some links that Linux no
// longer has. New routes come by events, in order. The dump of next-hop objects waits for the
// kernel lock, and so for the end of the operation that set the link down.
func (m *Mirror) auditLinks(links map[int]bool) error {
	m.dumpSeq++
	if err := m.conn.Dump(rtnl.NexthopObjects(), m.state.handle); err != nil {
		return err
	}
	m.sweepObjects()
	used := m.selectHops(func(h *hop) bool {
		return slices.ContainsFunc(h.paths, func(p path) bool { return links[p.link] })
	})
	if !used {
		return nil
	}
	m.onlyKeep = true
	defer func() { m.onlyKeep = false }()
	for link := range links {
		for _, f := range families {
			err := m.conn.Dump(rtnl.Routes(f).Over(link), m.state.handle)
			if err != nil && !errors.Is(err, unix.ENODEV) { // a deleted link has no routes
				return err
			}
		}
	}
	shared := m.sweepRoutes(func(_ netip.Prefix, r *route) bool {
		if r.seen == m.dumpSeq || !r.hop.selected {
			return false
		}
		if r.ecmp && len(r.hop.paths) > 1 {
			m.suspects.addAll() // it can still have paths over other links
			return false
		}
		return true
	})
	if shared {
		m.suspects.addAll() // an event that replaces the first of several could follow
	}
	return nil
}

// catchingUp watches for events that precede the dump. Applying them after the dump gives the
// right state, except for events that depend on each other: these need another resync.
func (m *Mirror) catchingUp() {
	m.catchUp, m.raced = true, false
	m.afterPendingEvents(func() {
		m.catchUp = false
		if m.raced && m.suspects.again < 2 {
			m.suspects.again++
			m.suspects.addAll()
		} else {
			m.suspects.again = 0
		}
	})
}

func (m *Mirror) sweepLinks() {
	for index, l := range m.links {
		if l.seen != m.dumpSeq {
			m.deleteLink(index)
		}
	}
}

func (m *Mirror) sweepObjects() {
	for id, o := range m.objects {
		if o.seen != m.dumpSeq {
			m.deleteObject(id)
		}
	}
}

func (m *Mirror) sweepNeighbors() {
	for id, n := range m.neighbors {
		if n.seen != m.dumpSeq {
			m.forgetNeighbor(id)
		}
	}
}
