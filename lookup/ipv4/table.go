// Package ipv4 is the longest-prefix match for IPv4 destinations: DIR-24-8, as
// package trie lays it out. A lookup touches one word of the table, two for
// routes longer than /24. The internet's table takes 59 MB, 66 bytes a route.
package ipv4

import (
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

//go:generate go run ./asm -pkg ipv4 -out walk_amd64.s -stubs walk_amd64.go

// Table maps IPv4 prefixes to next hops. One goroutine may change it while any
// number look up; each lookup sees the table before or after a change. Addresses
// are in host byte order.
type Table struct {
	trie.Batched[uint32]
}

// New returns an empty table, walked by the fastest kernel that this processor has.
func New() *Table { return &Table{trie.NewBatched(32, kernels())} }

// Lookup returns the next hop of the longest prefix that covers addr, which is
// in host byte order, or lookup.Miss.
func (t *Table) Lookup(addr uint32) lookup.NextHop {
	_, nh := t.Walk(trie.Key{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)})
	return nh
}
