package routefile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
)

// Table looks up addresses in the forwarding tables of the router.
type Table struct {
	routes []Route // sorted by prefix
	v4     *ipv4.Table
	v6     *ipv6.Table
}

// NewTable builds the tables. Of several routes to a prefix it uses the first with the lowest
// metric. It omits routes with only dead paths.
func NewTable(routes []Route) (*Table, error) {
	t := &Table{routes: slices.Clone(routes), v4: ipv4.New(), v6: ipv6.New()}
	t.routes = slices.DeleteFunc(t.routes, func(r Route) bool { return r.dead() })
	slices.SortStableFunc(t.routes, func(a, b Route) int {
		return cmp.Or(comparePrefix(a.Prefix, b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
	t.routes = slices.CompactFunc(t.routes, func(a, b Route) bool { return a.Prefix == b.Prefix })
	if err := t.v4.Load(t.hops(true)); err != nil {
		return nil, fmt.Errorf("build the IPv4 table: %w", err)
	}
	if err := t.v6.Load(t.hops(false)); err != nil {
		return nil, fmt.Errorf("build the IPv6 table: %w", err)
	}
	return t, nil
}

// hops returns the prefixes of a family with next hop prefix length + 1, which identifies the
// route of an address. The number of routes can exceed the number of next hops.
func (t *Table) hops(is4 bool) iter.Seq2[netip.Prefix, lookup.NextHopID] {
	return func(yield func(netip.Prefix, lookup.NextHopID) bool) {
		for i := range t.routes {
			if p := t.routes[i].Prefix; p.Addr().Is4() == is4 && !yield(p, lookup.NextHopID(p.Bits()+1)) {
				return
			}
		}
	}
}

// Len returns the number of prefixes.
func (t *Table) Len() int { return len(t.routes) }

// Tables returns the tables used by Lookup. Route resolves their next hops.
func (t *Table) Tables() (*ipv4.Table, *ipv6.Table) { return t.v4, t.v6 }

// Lookup returns the route with the longest prefix that covers addr.
func (t *Table) Lookup(addr netip.Addr) (Route, bool) {
	if addr.Is4() {
		b := addr.As4()
		return t.Route(addr, t.v4.Lookup(binary.BigEndian.Uint32(b[:])))
	}
	return t.Route(addr, t.v6.Lookup(addr.As16()))
}

// Route returns the route of an address and its next hop in the tables. It returns false for
// lookup.Miss and for other next hops.
func (t *Table) Route(addr netip.Addr, hop lookup.NextHopID) (Route, bool) {
	prefix, err := addr.Prefix(int(hop) - 1)
	if err != nil {
		return Route{}, false
	}
	i, ok := slices.BinarySearchFunc(t.routes, prefix, func(r Route, p netip.Prefix) int { return comparePrefix(r.Prefix, p) })
	if !ok {
		return Route{}, false
	}
	return t.routes[i], true
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
