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
	direct    direct
	image     atomic.Pointer[Image] // nil until the first route
	routes    *bart.Table[lookup.NextHopID]
	size      atomic.Int64
	followers followers
	bits      int          // address length: 32 or 128
	vrfs      map[int]*VRF // by number
}

// New returns an empty table for addresses of 32 or 128 bits. The first route allocates
// the image.
func New(bits int) *Table {
	return &Table{bits: bits, routes: newRoutes()}
}

func newRoutes() *bart.Table[lookup.NextHopID] { return new(bart.Table[lookup.NextHopID]) }

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

func (t *Table) check(p netip.Prefix, nh lookup.NextHopID) error {
	switch {
	case !p.IsValid() || p.Addr().BitLen() != t.bits:
		return fmt.Errorf("insert %v: not a prefix of %d-bit addresses", p, t.bits)
	case p != p.Masked():
		return fmt.Errorf("insert %v: address bits beyond the prefix length; did you mean %v?", p, p.Masked())
	case nh == lookup.Miss || nh > lookup.MaxNextHopID:
		return fmt.Errorf("insert %v: next hop %d is not between 1 and %d", p, nh, lookup.MaxNextHopID)
	}
	return nil
}

// Insert adds or replaces the route for p. After an error the table is unchanged.
func (t *Table) Insert(p netip.Prefix, nh lookup.NextHopID) error {
	if err := t.check(p, nh); err != nil {
		return err
	}
	im, err := t.writable()
	if err != nil {
		return fmt.Errorf("insert %v: %w", p, err)
	}
	if err := insert(im, 0, t.routes, p, nh); err != nil {
		return err
	}
	t.size.Store(int64(t.routes.Size()))
	return nil
}

// writable returns the image, which it allocates before the first route.
func (t *Table) writable() (*Image, error) {
	if im := t.image.Load(); im != nil {
		return im, nil
	}
	im, err := newImage()
	if err == nil {
		t.setImage(im)
	}
	return im, err
}

// insert adds or replaces a route of a VRF, in its route store and an image.
func insert(im *Image, vrf int, routes *bart.Table[lookup.NextHopID], p netip.Prefix, nh lookup.NextHopID) error {
	k := keyOf(p.Addr())
	if err := im.room(vrf, &k, p.Bits()); err != nil {
		return fmt.Errorf("insert %v: %w", p, err)
	}
	added := 1
	routes.Modify(p, func(_ lookup.NextHopID, ok bool) (lookup.NextHopID, bool) {
		if ok {
			added = 0
		}
		return nh, false
	})
	im.set(vrf, &k, p.Bits(), route(p.Bits(), nh), added)
	return nil
}

// Delete removes the route for exactly p, and reports whether it existed.
func (t *Table) Delete(p netip.Prefix) bool {
	if !t.remove(0, t.routes, p) {
		return false
	}
	t.size.Store(int64(t.routes.Size()))
	if t.routes.Size() == 0 && !t.hasVRFRoutes() {
		t.image.Load().empty()
	}
	return true
}

// remove removes a route of a VRF from its route store and the image, and reports whether it existed.
func (t *Table) remove(vrf int, routes *bart.Table[lookup.NextHopID], p netip.Prefix) (found bool) {
	if !p.IsValid() || p.Addr().BitLen() != t.bits || p != p.Masked() {
		return false
	}
	routes.Modify(p, func(nh lookup.NextHopID, ok bool) (lookup.NextHopID, bool) {
		found = ok
		return nh, true
	})
	if found {
		k := keyOf(p.Addr())
		t.image.Load().set(vrf, &k, p.Bits(), parent(vrf, routes, p), -1)
	}
	return found
}

// parent returns the word of the next shorter prefix that covers p; 0 if none does, or outside of VRFs
// only the default route.
func parent(vrf int, routes *bart.Table[lookup.NextHopID], p netip.Prefix) uint32 {
	if p.Bits() == 0 {
		return 0
	}
	shorter, nh, ok := routes.LookupPrefixLPM(netip.PrefixFrom(p.Addr(), p.Bits()-1))
	if !ok || shorter.Bits() == 0 && vrf == 0 {
		return 0
	}
	return route(shorter.Bits(), nh)
}

// Load replaces all routes by those of seq in one step, without those of VRFs. After an error the table is
// unchanged.
func (t *Table) Load(seq iter.Seq2[netip.Prefix, lookup.NextHopID]) error {
	im, err := newImage()
	if err != nil {
		return fmt.Errorf("load routes: %w", err)
	}
	routes := newRoutes()
	for p, nh := range seq {
		if err := t.check(p, nh); err != nil {
			return err
		}
		if err := insert(im, 0, routes, p, nh); err != nil {
			return err
		}
	}
	for _, v := range t.vrfs {
		if err := v.insertInto(im); err != nil {
			return err
		}
	}
	t.setImage(im)
	t.routes = routes
	t.size.Store(int64(routes.Size()))
	return nil
}

// setImage makes im the image for lookups and followers.
func (t *Table) setImage(im *Image) {
	im.followers = &t.followers
	t.followers.replace(im.used())
	t.direct.set(im)
	t.image.Store(im)
}

// Walk returns the length and the next hop of the longest prefix that covers an address;
// the next hop is lookup.Miss if no prefix does.
func (t *Table) Walk(k Key) (bits int, nh lookup.NextHopID) { return t.WalkIn(0, k) }

// WalkIn is Walk in a VRF, by its number; 0 is the table itself.
func (t *Table) WalkIn(vrf int, k Key) (bits int, nh lookup.NextHopID) {
	im := t.Image()
	if im == nil {
		return 0, lookup.Miss
	}
	word := im.walk(&k, vrf)
	runtime.KeepAlive(im)
	return length(word), nextHop(word)
}

// LookupPrefix returns the longest prefix that covers addr and its next hop; ok is false
// if no prefix does.
func (t *Table) LookupPrefix(addr netip.Addr) (p netip.Prefix, nh lookup.NextHopID, ok bool) {
	return t.lookupPrefix(0, addr)
}

func (t *Table) lookupPrefix(vrf int, addr netip.Addr) (p netip.Prefix, nh lookup.NextHopID, ok bool) {
	if addr.BitLen() != t.bits {
		return netip.Prefix{}, lookup.Miss, false
	}
	bits, nh := t.WalkIn(vrf, keyOf(addr))
	if nh == lookup.Miss {
		return netip.Prefix{}, lookup.Miss, false
	}
	return netip.PrefixFrom(addr.WithZone(""), bits).Masked(), nh, true
}
