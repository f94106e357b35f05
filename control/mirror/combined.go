package mirror

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/fib"
)

// combined is a lookup table of the FIB that gives packets the routes of up to three tables in the order of Linux's
// rules: local, one before main, main. As in Linux, the longest prefix of the first table that has a route to the
// destination is used. So the routes of main that a prefix of the table before covers are left out, and no packet needs
// two lookups.
type combined struct {
	key    tablesBefore
	vrf    uint16 // number in the FIB
	before [2]*table
	built  bool
	used   bool // by a port, since the last updateVRFs
}

// combine returns the table for a key.
func (s *state) combine(key tablesBefore) (*combined, error) {
	if c := s.combined[key]; c != nil {
		return c, nil
	}
	s.noTable() // has the first number
	vrf, err := s.fib.NewVRF()
	if err != nil {
		return nil, err
	}
	c := &combined{key: key, vrf: vrf}
	for family, id := range key {
		if id == 0 {
			continue
		}
		t, err := s.follow(id)
		if err != nil {
			c.drop(s)
			return nil, err
		}
		t.rules++
		c.before[family] = t
	}
	s.combined[key] = c
	return c, nil
}

// drop frees the table.
func (c *combined) drop(s *state) {
	delete(s.combined, c.key)
	s.fib.FreeVRF(c.vrf)
	s.changed = true
	for _, t := range c.before {
		if t != nil {
			t.rules--
			s.dropUnused(t)
		}
	}
}

// complete reports whether all routes of the tables are read.
func (c *combined) complete() bool {
	for _, t := range c.before {
		if t != nil && !t.complete {
			return false
		}
	}
	return true
}

func (c *combined) in(s *state, family int) lookupTable {
	if family == 0 {
		return s.fib.IPv4.VRF(int(c.vrf))
	}
	return s.fib.IPv6.VRF(int(c.vrf))
}

// build writes all routes, once.
func (c *combined) build(s *state) {
	if c.built {
		return
	}
	c.built = true
	for family := range c.before {
		c.load(s, family)
	}
}

// load writes all routes of a family.
func (c *combined) load(s *state, family int) {
	s.changed = true
	before := c.before[family]
	err := c.in(s, family).Load(func(yield func(netip.Prefix, fib.NextHopID) bool) {
		if before != nil {
			for p := range before.all(family) {
				if h := c.best(s, p); h != nil && !yield(p, s.idOf(h)) {
					return
				}
			}
		}
		for p := range s.main.all(family) {
			if before != nil && before.has(p) {
				continue
			}
			if h := c.best(s, p); h != nil && !yield(p, s.idOf(h)) {
				return
			}
		}
	})
	if err != nil {
		s.warnOnce("insert", "routes missing: "+err.Error())
	}
}

// write writes the routes that depend on dirty prefixes.
func (c *combined) write(s *state) {
	for family, before := range c.before {
		main := &s.main.dirty[family]
		if main.all || before != nil && before.dirty[family].all {
			c.load(s, family)
			continue
		}
		for _, p := range main.prefixes {
			c.writePrefix(s, p)
			if before == nil {
				continue
			}
			for inner, head := range before.routes.Subnets(p) {
				if head.best().kind == unix.RTN_THROW {
					c.writePrefix(s, inner)
				}
			}
		}
		if before == nil {
			continue
		}
		for _, p := range before.dirty[family].prefixes {
			c.writePrefix(s, p)
			for inner := range s.main.routes.Subnets(p) {
				c.writePrefix(s, inner)
			}
			if p.IsSingleIP() {
				continue
			}
			for ip := range s.main.hosts {
				if p.Contains(ip) {
					c.writePrefix(s, netip.PrefixFrom(ip, ip.BitLen()))
				}
			}
		}
	}
}

func (c *combined) writePrefix(s *state, p netip.Prefix) {
	s.changed = true
	to := c.in(s, familyOf(p.Addr()))
	h := c.best(s, p)
	if h == nil {
		to.Delete(p)
		return
	}
	if err := to.Insert(p, s.idOf(h)); err != nil {
		s.warnOnce("insert", "routes missing: "+err.Error())
	}
}

// tableFor returns the table whose route a packet takes to an address.
func (c *combined) tableFor(s *state, ip netip.Addr) *table {
	host := netip.PrefixFrom(ip, ip.BitLen())
	if _, head, ok := s.main.routes.LookupPrefixLPM(host); ok && head.best().table() == unix.RT_TABLE_LOCAL {
		return s.main
	}
	if t := c.before[familyOf(ip)]; t != nil {
		if _, head, ok := t.routes.LookupPrefixLPM(host); ok && head.best().kind != unix.RTN_THROW {
			return t
		}
	}
	return s.main
}

// best returns the hop of a prefix, nil if no route is to be used for it as a whole.
func (c *combined) best(s *state, p netip.Prefix) *hop {
	before := c.before[familyOf(p.Addr())]
	if head, ok := s.main.routes.Get(p); ok && head.best().table() == unix.RT_TABLE_LOCAL || before == nil {
		return s.main.hopOf(p)
	}
	_, head, covered := before.routes.LookupPrefixLPM(p)
	if !covered {
		return s.main.hopOf(p)
	}
	if head.best().kind != unix.RTN_THROW {
		return before.hopOf(p)
	}
	// A throw route continues with main, also where a shorter prefix of the table before covers main's.
	if h := s.main.hopOf(p); h != nil {
		return h
	}
	if !before.has(p) {
		return nil
	}
	if _, head, ok := s.main.routes.LookupPrefixLPM(p); ok {
		return head.best().hop
	}
	return s.fallbackHop
}
