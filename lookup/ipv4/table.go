// Package ipv4 implements longest-prefix match for IPv4 destinations: DIR-24-8, in the
// layout of package trie. A lookup reads one word of the table, or two for routes longer
// than /24. An internet table needs 59 MB, 66 bytes per route.
package ipv4

import (
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

//go:generate go run ./asm -pkg ipv4 -out lookup_amd64.s -stubs lookup_amd64.go

// Table maps IPv4 prefixes to next hops. One goroutine can change it while others look
// up; each lookup sees the table before or after a change. Addresses are in host byte
// order.
type Table struct {
	trie.Batched[uint32]
}

// New returns an empty table that uses the fastest kernel for this processor.
func New() *Table { return &Table{trie.NewBatched(32, kernels())} }

// Lookup returns the next hop of the longest prefix that covers addr, an address in host
// byte order, or lookup.Miss.
func (t *Table) Lookup(addr uint32) lookup.NextHopID {
	_, nh := t.Walk(Key(addr))
	return nh
}

// Key returns an address in host byte order as a key.
func Key(addr uint32) trie.Key {
	return trie.Key{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}
}
