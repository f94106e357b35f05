package mirror

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// Verification is the outcome of Verify.
type Verification struct {
	RoutesIPv4  int          `json:"routes_ipv4"` // prefixes that Linux has a route for, as far as the dataplane follows them
	RoutesIPv6  int          `json:"routes_ipv6"`
	Addresses   int          `json:"addresses"`   // that were looked up on both sides
	Different   int          `json:"different"`   // of these, and of what is counted
	Differences []Difference `json:"differences"` // the first of them
}

// Difference is an address whose packets the engines treat otherwise than Linux would.
type Difference struct {
	Address netip.Addr `json:"address,omitzero"` // invalid: it is about a number of routes
	Linux   string     `json:"linux"`
	Engines string     `json:"engines"`
}

const (
	maxDifferences = 100  // listed
	verifyAtOnce   = 4096 // addresses between two looks at events
)

var errStopped = errors.New("the mirror is closed")

// Verify compares all that engines read with a new dump of Linux's routes, links and
// neighbours, by nothing that the mirror made of earlier ones: for the first address of
// every prefix, and the one behind its last, the prefix that is longest, what becomes of
// packets, and each next hop with its link address, its share of the flows and its route's
// MTU. What a table says of addresses changes nowhere else, so the tables are equal if these
// are, and their sizes.
//
// Linux goes on meanwhile, and so does the mirror. A difference may be of a route
// that is just changing, so it is looked for again; the last look is reported.
func (m *Mirror) Verify() (v Verification, err error) {
	m.verifying.Lock()
	defer m.verifying.Unlock()
	for range 3 {
		if m.Settle(); m.stopped() {
			return v, errStopped // before it reads all that Linux has, once for each that waits
		}
		linux := newLinuxView()
		if err := linux.read(m.verifier); err != nil {
			return v, fmt.Errorf("read what Linux has: %w", err)
		}
		if v, err = m.compareWith(linux); err != nil || v.Different == 0 {
			break
		}
	}
	return v, err
}

func (m *Mirror) stopped() bool {
	select {
	case <-m.stop:
		return true
	default:
		return false
	}
}

// compareWith compares the base with what Linux has, some addresses at a time, so
// that events do not wait for long.
func (m *Mirror) compareWith(linux *linuxView) (v Verification, err error) {
	v = Verification{RoutesIPv4: linux.routes.Size4(), RoutesIPv6: linux.routes.Size6(), Differences: []Difference{}}
	c := comparison{m: m, linux: linux, Verification: &v}
	if !m.do(c.sizes) {
		return v, errStopped
	}
	var batch []netip.Addr
	compare := func() bool {
		ran := m.do(func() { c.addresses(batch) })
		batch = batch[:0]
		return ran
	}
	for p := range linux.routes.All() {
		batch = append(batch, p.Addr())
		if behind := lastAddr(p).Next(); behind.IsValid() {
			batch = append(batch, behind)
		}
		if len(batch) >= verifyAtOnce && !compare() {
			return v, errStopped
		}
	}
	for id := range linux.neighbors {
		batch = append(batch, id.addr)
	}
	if !compare() {
		return v, errStopped
	}
	return v, nil
}

// comparison is one look at both sides. Its methods run on the mirror's goroutine.
type comparison struct {
	m     *Mirror
	linux *linuxView
	*Verification
}

func (c *comparison) differ(ip netip.Addr, linux, engines string) {
	c.Different++
	if len(c.Differences) < maxDifferences {
		c.Differences = append(c.Differences, Difference{ip, linux, engines})
	}
}

// sizes compares how many prefixes there are.
func (c *comparison) sizes() {
	want := [2]int{c.RoutesIPv4, c.RoutesIPv6}
	hosts := map[netip.Addr]bool{}
	c.linux.said = map[*rtnl.Route]decision{}
	for id := range c.linux.neighbors {
		host := netip.PrefixFrom(id.addr, id.addr.BitLen())
		if _, twice := c.linux.routes.Get(host); !twice && !hosts[id.addr] {
			if p, _ := c.linux.decide(c.m.ports, id.addr); p == host {
				hosts[id.addr] = true
				want[familyOf(id.addr)]++
			}
		}
	}
	for family, n := range want {
		if got := c.m.table(family).Len(); got != n {
			name := [2]string{"IPv4", "IPv6"}[family]
			c.differ(netip.Addr{}, fmt.Sprintf("%d %s prefixes", n, name), fmt.Sprintf("%d %s prefixes", got, name))
		}
	}
}

func (c *comparison) addresses(ips []netip.Addr) {
	// Few ways lead to many addresses. What a number stands for stays while we look.
	said := map[fib.ID]decision{}
	c.linux.said = map[*rtnl.Route]decision{}
	for _, ip := range ips {
		c.Addresses++
		p, linux := c.linux.decide(c.m.ports, ip)
		q, engines := c.m.decide(ip, said)
		if p != q || !engines.as(linux) {
			c.differ(ip, say(p, linux), say(q, engines))
		}
	}
}

func say(p netip.Prefix, d decision) string {
	if !p.IsValid() {
		return d.String()
	}
	return p.String() + " " + d.String()
}

// decide says what engines do with packets to an address, by the words of the base.
func (s *state) decide(ip netip.Addr, said map[fib.ID]decision) (netip.Prefix, decision) {
	lookup := s.fib.IPv4.LookupPrefix
	if ip.Is6() {
		lookup = s.fib.IPv6.LookupPrefix
	}
	p, id, ok := lookup(ip)
	if !ok {
		return p, decision{kind: fib.KindNone}
	}
	d, again := said[id]
	if !again {
		d = s.decision(s.fib.NextHop(id))
		said[id] = d
	}
	return p, d
}

func (s *state) decision(hop fib.NextHop) decision {
	if hop.Kind() != fib.KindForward {
		return decision{kind: hop.Kind()}
	}
	flows := map[uint32]float64{hop.Index(): 1} // by adjacency
	if hop.Group() {
		clear(flows)
		for _, id := range s.fib.Words().Groups[int(hop.Index())*fib.Buckets:][:fib.Buckets] {
			flows[id]++
		}
	}
	ways := map[string]float64{}
	for id, n := range flows {
		word := s.fib.Adjacency(id)
		ways[wayOf(s.ports[word.Port()].Name, s.adjacency(id).to.addr, word.MAC())] += n
	}
	return share(ways, hop.MTU())
}

// adjacency returns the adjacency with a number, an empty one for one that was freed.
func (s *state) adjacency(id uint32) *adjacency {
	if a := s.numbered[id]; a != nil {
		return a
	}
	return new(adjacency)
}

// wayOf names one way to forward by: its port, the gateway, its link address.
func wayOf(port string, gateway netip.Addr, mac fib.MAC) string {
	switch {
	case !gateway.IsValid():
		return "by " + port + ", to be resolved"
	case mac == 0:
		return fmt.Sprintf("by %s to %v, unresolved", port, gateway)
	}
	return fmt.Sprintf("by %s to %v (%v)", port, gateway, mac)
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}
