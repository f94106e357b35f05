package mirror

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// auditDelay is how long suspects are collected before they are compared.
func (m *Mirror) auditDelay() time.Duration {
	if m.failed {
		return time.Second
	}
	return 2 * time.Millisecond
}

// suspects is what may differ from Linux without an event to tell.
type suspects struct {
	all   bool
	links map[int]bool        // routes over them that are known
	addrs map[netip.Addr]bool // deleted: IPv4 routes that prefer them as source
	again int                 // how often in a row events raced with the dump
}

func (s *suspects) any() bool { return s.all || len(s.links)+len(s.addrs) > 0 }

func (s *suspects) everything() { s.all = true }

func (s *suspects) link(index int) {
	if s.links == nil {
		s.links = map[int]bool{}
	}
	s.links[index] = true
}

// addr notes a deleted IPv4 address. With the last one of a link its routes go.
func (s *suspects) addr(link int, ip netip.Addr) {
	s.link(link)
	if s.addrs == nil {
		s.addrs = map[netip.Addr]bool{}
	}
	s.addrs[ip] = true
}

var families = [...]uint8{unix.AF_INET, unix.AF_INET6}

// synchronize compares the whole state with Linux: what is not in the dumps goes.
// Changes during the dumps come as events afterwards.
func (m *Mirror) synchronize() error {
	m.epoch++
	m.suspects = suspects{again: m.suspects.again}
	m.charon = charon{changed: true}
	queries := []rtnl.Query{rtnl.Links(), rtnl.Nexthops()}
	for _, f := range families {
		queries = append(queries, rtnl.Neighbors(f), rtnl.Routes(f), rtnl.Rules(f))
	}
	for _, q := range queries {
		if err := m.conn.Dump(q, m.state.handle); err != nil {
			return err
		}
	}
	m.sweepLinks()
	m.sweepObjects()
	m.sweepNeighbors()
	m.sweepRoutes(func(_ netip.Prefix, r *route) bool { return r.seen != m.epoch })
	m.flush()
	m.catchingUp()
	return nil
}

// resynchronize tries until it succeeds: not to is to forward wrongly.
func (m *Mirror) resynchronize() {
	m.counts.resyncs++
	err := m.synchronize()
	if m.failed = err != nil; m.failed {
		m.log.Error("could not compare routes with Linux's; trying again", "err", err)
		m.flush()
		m.suspects.everything()
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
	m.counts.audits++
	err := m.auditLinks(todo.links)
	if m.failed = err != nil; m.failed {
		m.log.Error("could not compare routes with Linux's; trying again", "err", err)
		m.suspects = todo
	}
	m.flush()
}

// auditLinks compares next-hop objects, and drops what Linux has no more of the
// routes over some links. It learns of no new ones, which events tell in order.
// The dump of next-hop objects waits for Linux's lock, and so for the end of
// whatever set the link down.
func (m *Mirror) auditLinks(links map[int]bool) error {
	m.epoch++
	if err := m.conn.Dump(rtnl.Nexthops(), m.state.handle); err != nil {
		return err
	}
	m.sweepObjects()
	used := m.markHops(func(h *hop) bool {
		return slices.ContainsFunc(h.paths, func(p path) bool { return links[p.link] })
	})
	if !used {
		return nil
	}
	m.marking = true
	defer func() { m.marking = false }()
	for link := range links {
		for _, f := range families {
			err := m.conn.Dump(rtnl.Routes(f).Over(link), m.state.handle)
			if err != nil && !errors.Is(err, unix.ENODEV) { // a link that is gone has no routes
				return err
			}
		}
	}
	others := m.sweepRoutes(func(_ netip.Prefix, r *route) bool {
		if r.seen == m.epoch || !r.hop.marked {
			return false
		}
		if r.ecmp && len(r.hop.paths) > 1 {
			m.suspects.everything() // Linux may have the paths over other links
			return false
		}
		return true
	})
	if others {
		m.suspects.everything() // an event that replaces the first of several may be on its way
	}
	return nil
}

// catchingUp watches events that may be older than the dump. Applied after it
// they lead to what Linux has, but for some that depend on each other: after
// those one more comparison is due.
func (m *Mirror) catchingUp() {
	m.catchUp, m.raced = true, false
	m.mark(func() {
		m.catchUp = false
		if m.raced && m.suspects.again < 2 {
			m.suspects.again++
			m.suspects.everything()
		} else {
			m.suspects.again = 0
		}
	})
}

func (m *Mirror) sweepLinks() {
	for index, l := range m.links {
		if l.seen != m.epoch {
			m.deleteLink(index)
		}
	}
}

func (m *Mirror) sweepObjects() {
	for id, o := range m.objects {
		if o.seen != m.epoch {
			m.deleteObject(id)
		}
	}
}

func (m *Mirror) sweepNeighbors() {
	for id, n := range m.neighbors {
		if n.seen != m.epoch {
			m.forgetNeighbor(id)
		}
	}
}
