// Package ipv4 is the longest-prefix match for IPv4 destinations.
package ipv4

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/internal/lpm"
	"github.com/warproute/warproute/lookup"
)

// Table maps IPv4 prefixes to next hops. One goroutine may change it while any
// number look up; each lookup sees the table before or after a change.
type Table struct{ *lpm.Table }

// New returns an empty table.
func New() *Table { return &Table{lpm.New(32)} }

// Lookup returns the next hop of the longest prefix that covers addr, which is
// in host byte order, or lookup.Miss.
func (t *Table) Lookup(addr uint32) lookup.NextHop {
	nh, _ := t.Trie().Lookup(toAddr(addr))
	return nh
}

// LookupBatch answers src[i] in dst[i]. Addresses are in host byte order; dst is
// at least as long as src. It allocates nothing.
func (t *Table) LookupBatch(dst []lookup.NextHop, src []uint32) {
	trie := t.Trie()
	dst = dst[:len(src)]
	for i, addr := range src {
		dst[i], _ = trie.Lookup(toAddr(addr))
	}
}

func toAddr(addr uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], addr)
	return netip.AddrFrom4(b)
}
