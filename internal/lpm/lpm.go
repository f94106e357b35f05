// Package lpm is the longest-prefix match behind lookup/ipv4 and lookup/ipv6: a
// persistent trie, swapped by one atomic pointer, so that a reader sees the
// table before or after a change and never between.
package lpm

import (
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/lookup"
)

// Table maps prefixes to next hops. Any number of goroutines may read; one may write.
type Table struct {
	trie atomic.Pointer[bart.Fast[lookup.NextHop]]
	bits int // of the addresses it takes: 32 or 128
}

// New returns an empty table for addresses of 32 or 128 bits.
func New(bits int) *Table {
	t := &Table{bits: bits}
	t.trie.Store(new(bart.Fast[lookup.NextHop]))
	return t
}

// Trie is the table as of now, for a batch of lookups.
func (t *Table) Trie() *bart.Fast[lookup.NextHop] { return t.trie.Load() }

func (t *Table) check(p netip.Prefix, nh lookup.NextHop) error {
	switch {
	case !p.IsValid() || p.Addr().BitLen() != t.bits:
		return fmt.Errorf("insert %v: not a prefix of %d-bit addresses", p, t.bits)
	case p != p.Masked():
		return fmt.Errorf("insert %v: address bits beyond the prefix length; did you mean %v?", p, p.Masked())
	case nh == lookup.Miss || nh > lookup.MaxNextHop:
		return fmt.Errorf("insert %v: next hop %d is not between 1 and %d", p, nh, lookup.MaxNextHop)
	}
	return nil
}

// Insert adds or replaces the route for p. On error the table is as it was.
func (t *Table) Insert(p netip.Prefix, nh lookup.NextHop) error {
	if err := t.check(p, nh); err != nil {
		return err
	}
	t.trie.Store(t.trie.Load().InsertPersist(p, nh))
	return nil
}

// Delete removes the route for exactly p, and reports whether there was one.
func (t *Table) Delete(p netip.Prefix) bool {
	old := t.trie.Load()
	if _, ok := old.Get(p); !ok {
		return false
	}
	t.trie.Store(old.DeletePersist(p))
	return true
}

// Load replaces the whole content by the routes of seq, at once. On error the
// table is as it was.
func (t *Table) Load(seq iter.Seq2[netip.Prefix, lookup.NextHop]) error {
	next := new(bart.Fast[lookup.NextHop])
	for p, nh := range seq {
		if err := t.check(p, nh); err != nil {
			return err
		}
		next.Insert(p, nh)
	}
	t.trie.Store(next)
	return nil
}

// LookupPrefix returns the longest prefix that covers addr, and its next hop.
func (t *Table) LookupPrefix(addr netip.Addr) (netip.Prefix, lookup.NextHop, bool) {
	p, nh, ok := t.trie.Load().LookupPrefixLPM(netip.PrefixFrom(addr, addr.BitLen()))
	return p, nh, ok
}

// Len is the number of routes.
func (t *Table) Len() int { return t.trie.Load().Size() }
