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

// Table maps prefixes of one address family to next hops. One goroutine can change it
// while others look up; each lookup sees the table before or after a change.
//
// Lookups use the image. The writer also keeps a route store, to find the next shorter
// prefix when a route is deleted.
type Table struct {
	image     atomic.Pointer[Image] // nil until the first route
	routes    *bart.Table[lookup.NextHop]
	size      atomic.Int64
	followers followers
	bits      int // address length: 32 or 128
}

// New returns an empty table for addresses of 32 or 128 bits. The first route allocates
// the image.
func New(bits int) *Table {
	return &Table{bits: bits, routes: new(bart.Table[lookup.NextHop])}
}

// Image returns the current image; nil if the table never had a route.
func (t *Table) Image() *Image { return t.image.Load() }

// View calls f with the words of the image and returns the error of f. The words are
// the root, the header and all nodes ever allocated, or none if the table never had a
// route; they stay mapped until f returns. For the writer only.
func (t *Table) View(f func(words []uint32) error) error {
	im := t.Image()
	if im == nil {
		return f(nil)
	}
	defer runtime.KeepAlive(im)
	return f(im.used())
}

// Len returns the number of routes.
func (t *Table) Len() int { return int(t.size.Load()) }

// Bytes returns the resident memory of the image, without the writer's route store. For
// the writer only.
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

// Insert adds or replaces the route for p. After an error the table is unchanged.
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
	routes.Modify(p, func(_ lookup.NextHop, ok bool) (lookup.NextHop, bool) {
		if ok {
			added = 0
		}
		return nh, false
	})
	im.set(&k, p.Bits(), route(p.Bits(), nh), added)
	return nil
}

// Delete removes the route for exactly p, and reports whether it existed.
func (t *Table) Delete(p netip.Prefix) bool {
	if !p.IsValid() || p.Addr().BitLen() != t.bits || p != p.Masked() {
		return false
	}
	found := false
	t.routes.Modify(p, func(nh lookup.NextHop, ok bool) (lookup.NextHop, bool) {
		found = ok
		return nh, true
	})
	if !found {
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

// parent returns the word of the next shorter prefix that covers p; 0 if only the default
// route does.
func (t *Table) parent(p netip.Prefix) uint32 {
	if p.Bits() < 2 {
		return 0
	}
	shorter, nh, ok := t.routes.LookupPrefixLPM(netip.PrefixFrom(p.Addr(), p.Bits()-1))
	if !ok || shorter.Bits() == 0 {
		return 0
	}
	return route(shorter.Bits(), nh)
}

// Load replaces all routes by those of seq in one step. After an error the table is
// unchanged.
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

// publish makes im the image for lookups and followers.
func (t *Table) publish(im *Image) {
	im.followers = &t.followers
	t.followers.replace(im.used())
	t.image.Store(im)
}

// Walk returns the length and the next hop of the longest prefix that covers an address;
// the next hop is lookup.Miss if no prefix does.
func (t *Table) Walk(k Key) (bits int, nh lookup.NextHop) {
	im := t.Image()
	if im == nil {
		return 0, lookup.Miss
	}
	word := im.walk(&k)
	runtime.KeepAlive(im)
	return length(word), nextHop(word)
}

// LookupPrefix returns the longest prefix that covers addr and its next hop; ok is false
// if no prefix does.
func (t *Table) LookupPrefix(addr netip.Addr) (p netip.Prefix, nh lookup.NextHop, ok bool) {
	if addr.BitLen() != t.bits {
		return netip.Prefix{}, lookup.Miss, false
	}
	bits, nh := t.Walk(keyOf(addr))
	if nh == lookup.Miss {
		return netip.Prefix{}, lookup.Miss, false
	}
	return netip.PrefixFrom(addr.WithZone(""), bits).Masked(), nh, true
}
