// Package ipv6 is the longest-prefix match for IPv6 destinations: a trie with a
// root of 24 bits and steps of 8, as package trie lays it out. A lookup touches one
// word of the table, and one more for each 8 bits behind the 24th: four for a /48.
// The internet's table takes 46 MB, 285 bytes a route.
package ipv6

import (
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

//go:generate go run ./asm -pkg ipv6 -out walk_amd64.s -stubs walk_amd64.go

// Table maps IPv6 prefixes to next hops. One goroutine may change it while any
// number look up; each lookup sees the table before or after a change. Addresses
// are in network byte order.
type Table struct {
	trie.Batched[[16]byte]
}

// New returns an empty table, walked by the fastest kernel that this processor has.
func New() *Table { return &Table{trie.NewBatched(128, kernels())} }

// Lookup returns the next hop of the longest prefix that covers addr, or lookup.Miss.
func (t *Table) Lookup(addr [16]byte) lookup.NextHop {
	_, nh := t.Walk(addr)
	return nh
}
