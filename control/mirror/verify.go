package mirror

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// Verification is the result of Verify.
type Verification struct {
	RoutesIPv4  int          `json:"routes_ipv4"` // prefixes in Linux with supported routes
	RoutesIPv6  int          `json:"routes_ipv6"`
	Addresses   int          `json:"addresses"`   // compared
	Different   int          `json:"different"`   // addresses and table sizes that differ
	Differences []Difference `json:"differences"` // the first 100
}

// Difference is an address with a different decision in Linux and in the router.
type Difference struct {
	Address netip.Addr `json:"address,omitzero"` // none: the table sizes differ
	Table   uint32     `json:"table,omitempty"`  // of a VRF
	Linux   string     `json:"linux"`
	Router  string     `json:"router"`
}

const (
	maxDifferences = 100  // listed
	verifyAtOnce   = 4096 // addresses compared between two batches of events
)

var errClosed = errors.New("mirror closed")

// Verify compares the FIB with a new dump of Linux's routes, links and neighbors,
// independently of the mirror's state. For the first address of every prefix, and the first
// address after it, it compares the longest prefix, the action, and each next hop with its MAC
// address, share of the flows and MTU. Decisions only change at these addresses, so the tables
// are equal if these and the table sizes are.
//
// Routes can change during the comparison, so a difference is checked again up to two times.
func (m *Mirror) Verify() (v Verification, err error) {
	m.verifying.Lock()
	defer m.verifying.Unlock()
	for range 3 {
		if m.settle(); m.loop.Closed() {
			return v, errClosed
		}
		linux := newLinuxDump()
		linux.tunnels, linux.vrfs = m.hooks.Tunnels != nil, m.hooks.VRFs
		if err := linux.read(m.verifier); err != nil {
			return v, fmt.Errorf("read Linux routes: %w", err)
		}
		if v, err = m.compareWith(linux); err != nil || v.Different == 0 {
			break
		}
	}
	return v, err
}

// compareWith compares all tables with a dump, and which of them each port uses.
func (m *Mirror) compareWith(linux *linuxDump) (v Verification, err error) {
	v.Differences = []Difference{}
	c := comparison{m: m, linux: linux, Verification: &v}
	if !m.do(c.vrfs) {
		return v, errClosed
	}
	for table, routes := range linux.routes {
		if linux.byRules[table] && m.vrfs[table] == nil {
			continue // of no port
		}
		v.RoutesIPv4, v.RoutesIPv6 = v.RoutesIPv4+routes.Size4(), v.RoutesIPv6+routes.Size6()
		c.table = table
		if err := c.compare(routes); err != nil {
			return v, err
		}
	}
	return v, nil
}

// compare compares a table, some addresses at a time, so that events are applied in between.
func (c *comparison) compare(routes *bart.Table[linuxRoute]) error {
	m, linux := c.m, c.linux
	if !m.do(func() { c.sizes(routes) }) {
		return errClosed
	}
	var batch []netip.Addr
	compare := func() bool {
		ran := m.do(func() { c.addresses(batch) })
		batch = batch[:0]
		return ran
	}
	for p := range routes.All() {
		batch = append(batch, p.Addr())
		if behind := lastAddr(p).Next(); behind.IsValid() {
			batch = append(batch, behind)
		}
		if len(batch) >= verifyAtOnce && !compare() {
			return errClosed
		}
	}
	for id := range linux.neighbors {
		batch = append(batch, id.addr)
	}
	if !compare() {
		return errClosed
	}
	return nil
}

// comparison is one comparison with a dump. Its methods run on the mirror's goroutine.
type comparison struct {
	m     *Mirror
	linux *linuxDump
	table uint32 // 0: main
	*Verification
}

func (c *comparison) differ(ip netip.Addr, linux, router string) {
	c.Different++
	if len(c.Differences) < maxDifferences {
		c.Differences = append(c.Differences, Difference{ip, c.table, linux, router})
	}
}

// vrfs compares which tables the ports use.
func (c *comparison) vrfs() {
	for index, l := range c.linux.links {
		number := c.m.portNumber(index)
		if number < 0 || l.Kind == "macvlan" {
			continue
		}
		want, got := "table main", "no table"
		if l.InVRF() && c.linux.vrfs {
			want = fmt.Sprint("table ", c.linux.links[l.Master].VRFTable)
		}
		if before, err := tablesByRules(c.linux.rules[l.Name]); err != nil {
			want = "no table"
		} else if before != (tablesBefore{}) {
			want = before.String()
		}
		if combined := c.m.combinedOf(number); combined != nil {
			got = combined.key.String()
		}
		if t := c.m.tableOfPort(number); t != nil {
			if got = "table main"; t.vrf != 0 {
				got = fmt.Sprint("table ", t.id)
			}
		}
		if want != got {
			c.differ(netip.Addr{}, l.Name+" by "+want, l.Name+" by "+got)
		}
	}
}

// sizes compares the table sizes.
func (c *comparison) sizes(routes *bart.Table[linuxRoute]) {
	want := [2]int{routes.Size4(), routes.Size6()}
	hosts := map[netip.Addr]bool{}
	c.linux.decisions = map[*rtnl.Route]decision{}
	for id := range c.linux.neighbors {
		host := netip.PrefixFrom(id.addr, id.addr.BitLen())
		if _, ok := routes.Get(host); !ok && !hosts[id.addr] {
			if p, _ := c.linux.decide(c.m.ports, c.table, id.addr); p == host {
				hosts[id.addr] = true
				want[familyOf(id.addr)]++
			}
		}
	}
	for family, n := range want {
		got := 0
		if t := c.of(); t != nil {
			got = c.m.inTable(t, family).Len()
		}
		if got != n {
			name := [2]string{"IPv4", "IPv6"}[family]
			c.differ(netip.Addr{}, fmt.Sprintf("%d %s prefixes", n, name), fmt.Sprintf("%d %s prefixes", got, name))
		}
	}
}

// of returns the table of the router, nil if it is missing.
func (c *comparison) of() *table {
	if c.table == 0 {
		return c.m.main
	}
	return c.m.vrfs[c.table]
}

func (c *comparison) addresses(ips []netip.Addr) {
	// Many addresses share few next hops, which do not change during the call.
	cached := map[fib.NextHopID]decision{}
	c.linux.decisions = map[*rtnl.Route]decision{}
	for _, ip := range ips {
		c.Addresses++
		p, linux := c.linux.decide(c.m.ports, c.table, ip)
		q, router := c.m.decide(c.of(), ip, cached)
		if p != q || !router.matches(linux) {
			c.differ(ip, describe(p, linux), describe(q, router))
		}
	}
}

func describe(p netip.Prefix, d decision) string {
	if !p.IsValid() {
		return d.String()
	}
	return p.String() + " " + d.String()
}

// decide returns the router's decision for an address in a table, which may be nil.
func (s *state) decide(t *table, ip netip.Addr, cached map[fib.NextHopID]decision) (netip.Prefix, decision) {
	if t == nil {
		return netip.Prefix{}, decision{kind: fib.KindNoTable}
	}
	p, id, found := s.inTable(t, familyOf(ip)).LookupPrefix(ip)
	if !found {
		return p, decision{kind: fib.KindNone}
	}
	d, ok := cached[id]
	if !ok {
		d = s.decision(s.fib.NextHop(id))
		cached[id] = d
	}
	return p, d
}

func (s *state) decision(hop fib.NextHop) decision {
	if hop.OverXFRM() {
		weights := map[string]float64{}
		for bucket := range uint32(fib.Buckets) {
			weights[tunnelName(s.fib.IfID(hop, bucket<<24))]++
		}
		return shareOf(fib.KindNoPort, weights, hop.MTU())
	}
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
	paths := map[string]float64{}
	for id, n := range flows {
		word := s.fib.Adjacency(id)
		paths[pathName(s.portName(int(word.Port())), s.adjacency(id).to.addr, word.MAC())] += n
	}
	return share(paths, hop.MTU())
}

// adjacency returns an adjacency by index, an empty one if it was freed.
func (s *state) adjacency(id uint32) *adjacency {
	if a := s.adjacencyByID[id]; a != nil {
		return a
	}
	return new(adjacency)
}

// tunnelName describes a path over an XFRM interface.
func tunnelName(ifID uint32) string { return fmt.Sprintf("over if_id %d", ifID) }

// pathName describes a path: port, gateway, MAC address.
func pathName(port string, gateway netip.Addr, mac fib.MAC) string {
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
