// Package ipv6 implements longest-prefix match for IPv6 destinations: a trie with a root
// of 24 bits and strides of 8, in the layout of package trie. A lookup reads one word of
// the table, and one more for each 8 bits beyond 24: four for a /48. An internet table
// needs 46 MB, 285 bytes per route.
package ipv6

import (
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

//go:generate go run ./asm -pkg ipv6 -out lookup_amd64.s -stubs lookup_amd64.go

// Table maps IPv6 prefixes to next hops. One goroutine can change it while others look
// up; each lookup sees the table before or after a change. Addresses are in network byte
// order.
type Table struct {
	trie.Batched[[16]byte]
}

// New returns an empty table that uses the fastest kernel for this processor.
func New() *Table { return &Table{trie.NewBatched(128, kernels())} }

// Lookup returns the next hop of the longest prefix that covers addr, or lookup.Miss.
func (t *Table) Lookup(addr [16]byte) lookup.NextHopID {
	_, nh := t.Walk(addr)
	return nh
}
