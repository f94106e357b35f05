package trie

import (
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/lookup"
)

// Table maps prefixes of one family to next hops. One goroutine may change it
// while any number look up; each lookup sees the table before or after a change.
//
// The image answers lookups. What it cannot answer, which route comes back when
// one goes, the writer asks a route store of its own.
type Table struct {
	image     atomic.Pointer[Image] // nil until there is a route
	routes    *bart.Table[lookup.NextHop]
	size      atomic.Int64
	followers followers
	bits      int // of an address: 32 or 128
}

// New returns an empty table for addresses of 32 or 128 bits. It takes memory
// when it is given its first route.
func New(bits int) *Table {
	return &Table{bits: bits, routes: new(bart.Table[lookup.NextHop])}
}

// Image is the table as of now, nil for one that never had a route.
func (t *Table) Image() *Image { return t.image.Load() }

// View calls f with the words of the image, none for a table that never had a route:
// root, header, and all groups that ever were. They are there until f returns, whose
// error it gives back. The writer may ask.
func (t *Table) View(f func(words []uint32) error) error {
	im := t.Image()
	if im == nil {
		return f(nil)
	}
	defer runtime.KeepAlive(im)
	return f(im.used())
}

// Len is the number of routes.
func (t *Table) Len() int { return int(t.size.Load()) }

// Bytes is the memory that lookups use; the writer may ask. Its own store of
// routes is not counted.
func (t *Table) Bytes() int {
	im := t.Image()
	if im == nil {
		return 0
	}
	return im.Bytes()
}

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
	im := t.image.Load()
	if im == nil {
		var err error
		if im, err = newImage(); err != nil {
			return fmt.Errorf("insert %v: %w", p, err)
		}
		t.publish(im)
	}
	if err := insert(im, t.routes, p, nh); err != nil {
		return err
	}
	t.size.Store(int64(t.routes.Size()))
	return nil
}

func insert(im *Image, routes *bart.Table[lookup.NextHop], p netip.Prefix, nh lookup.NextHop) error {
	k := keyOf(p.Addr())
	if err := im.room(&k, p.Bits()); err != nil {
		return fmt.Errorf("insert %v: %w", p, err)
	}
	added := 1
	routes.Modify(p, func(_ lookup.NextHop, there bool) (lookup.NextHop, bool) {
		if there {
			added = 0
		}
		return nh, false
	})
	im.set(&k, p.Bits(), route(p.Bits(), nh), added)
	return nil
}

// Delete removes the route for exactly p, and reports whether there was one.
func (t *Table) Delete(p netip.Prefix) bool {
	if !p.IsValid() || p.Addr().BitLen() != t.bits || p != p.Masked() {
		return false
	}
	there := false
	t.routes.Modify(p, func(nh lookup.NextHop, ok bool) (lookup.NextHop, bool) {
		there = ok
		return nh, true
	})
	if !there {
		return false
	}
	im, k := t.image.Load(), keyOf(p.Addr())
	im.set(&k, p.Bits(), t.parent(p), -1)
	t.size.Store(int64(t.routes.Size()))
	if t.routes.Size() == 0 {
		im.empty()
	}
	return true
}

// parent is the word of the longest prefix that covers p and is shorter, 0 where
// there is none but the default route.
func (t *Table) parent(p netip.Prefix) uint32 {
	if p.Bits() < 2 {
		return 0
	}
	above, nh, ok := t.routes.LookupPrefixLPM(netip.PrefixFrom(p.Addr(), p.Bits()-1))
	if !ok || above.Bits() == 0 {
		return 0
	}
	return route(above.Bits(), nh)
}

// Load replaces the whole content by the routes of seq, at once. On error the
// table is as it was.
func (t *Table) Load(seq iter.Seq2[netip.Prefix, lookup.NextHop]) error {
	im, err := newImage()
	if err != nil {
		return fmt.Errorf("load routes: %w", err)
	}
	routes := new(bart.Table[lookup.NextHop])
	for p, nh := range seq {
		if err := t.check(p, nh); err != nil {
			return err
		}
		if err := insert(im, routes, p, nh); err != nil {
			return err
		}
	}
	t.publish(im)
	t.routes = routes
	t.size.Store(int64(routes.Size()))
	return nil
}

// publish makes an image the one that is followed, and that lookups are in.
func (t *Table) publish(im *Image) {
	im.followers = &t.followers
	t.followers.replace(im.used())
	t.image.Store(im)
}

// Walk returns the length of the longest prefix that covers an address, and its
// next hop, lookup.Miss where there is none.
func (t *Table) Walk(k Key) (bits int, nh lookup.NextHop) {
	im := t.Image()
	if im == nil {
		return 0, lookup.Miss
	}
	word := im.walk(&k)
	runtime.KeepAlive(im)
	return length(word), nextHop(word)
}

// LookupPrefix returns the longest prefix that covers addr, and its next hop.
func (t *Table) LookupPrefix(addr netip.Addr) (netip.Prefix, lookup.NextHop, bool) {
	if addr.BitLen() != t.bits {
		return netip.Prefix{}, lookup.Miss, false
	}
	bits, nh := t.Walk(keyOf(addr))
	if nh == lookup.Miss {
		return netip.Prefix{}, lookup.Miss, false
	}
	return netip.PrefixFrom(addr.WithZone(""), bits).Masked(), nh, true
}
