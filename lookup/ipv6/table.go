// Package ipv6 is the longest-prefix match for IPv6 destinations: a trie with a
// root of 24 bits and steps of 8, as package trie lays it out. A lookup touches one
// word of the table, and one more for each 8 bits behind the 24th: four for a /48.
// The internet's table takes 46 MB, 285 bytes a route.
package ipv6

import (
	"runtime"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

//go:generate go run ./asm -pkg ipv6 -out walk_amd64.s -stubs walk_amd64.go

// Table maps IPv6 prefixes to next hops. One goroutine may change it while any
// number look up; each lookup sees the table before or after a change.
type Table struct {
	*trie.Table
	kernel kernel
}

// New returns an empty table, walked by the fastest kernel that this processor has.
func New() *Table { return &Table{Table: trie.New(128), kernel: kernels()[0]} }

// Lookup returns the next hop of the longest prefix that covers addr, or lookup.Miss.
func (t *Table) Lookup(addr [16]byte) lookup.NextHop {
	_, nh := t.Walk(addr)
	return nh
}

// LookupBatch answers src[i] in dst[i]. Addresses are in network byte order; dst
// is at least as long as src. It allocates nothing.
func (t *Table) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	dst = dst[:len(src)]
	im := t.Image()
	if im == nil {
		clear(dst)
		return
	}
	for ; len(src) > atOnce; dst, src = dst[atOnce:], src[atOnce:] {
		t.walk(im, dst[:atOnce], src[:atOnce])
	}
	t.walk(im, dst, src)
	runtime.KeepAlive(im)
}

// atOnce is how many addresses of a batch are looked up, and where a writer came
// between looked up again, together: so few that a writer at full speed lets them end.
const atOnce = 1024

// walk looks up until no group began another life meanwhile.
func (t *Table) walk(im *trie.Image, dst []lookup.NextHop, src [][16]byte) {
	for reuses := im.Reuses(); ; {
		t.kernel.walk(im.Words(), dst, src)
		now := im.Reuses()
		if now == reuses {
			return
		}
		reuses = now
	}
}
