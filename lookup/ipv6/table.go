// Package ipv6 is the longest-prefix match for IPv6 destinations.
package ipv6

import (
	"net/netip"

	"github.com/warproute/warproute/internal/lpm"
	"github.com/warproute/warproute/lookup"
)

// Table maps IPv6 prefixes to next hops. One goroutine may change it while any
// number look up; each lookup sees the table before or after a change.
type Table struct{ *lpm.Table }

// New returns an empty table.
func New() *Table { return &Table{lpm.New(128)} }

// Lookup returns the next hop of the longest prefix that covers addr, or lookup.Miss.
func (t *Table) Lookup(addr [16]byte) lookup.NextHop {
	nh, _ := t.Trie().Lookup(netip.AddrFrom16(addr))
	return nh
}

// LookupBatch answers src[i] in dst[i]. Addresses are in network byte order; dst
// is at least as long as src. It allocates nothing.
func (t *Table) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	trie := t.Trie()
	dst = dst[:len(src)]
	for i := range src {
		dst[i], _ = trie.Lookup(netip.AddrFrom16(src[i]))
	}
}
