package trie

import (
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/lookup"
)

// VRF is a further table in the image of a Table, so that readers and followers need no other image. Its
// methods are those of Table, and belong to the goroutine that changes the table.
type VRF struct {
	table  *Table
	number int
	routes *bart.Table[lookup.NextHopID]
	size   atomic.Int64
}

// VRF returns the VRF with a number from 1 to NumVRFIDs - 1, which has no routes before the first Insert.
func (t *Table) VRF(number int) *VRF {
	if number < 1 || number >= NumVRFIDs {
		panic(fmt.Sprintf("VRF %d is not between 1 and %d", number, NumVRFIDs-1))
	}
	if v := t.vrfs[number]; v != nil {
		return v
	}
	if t.vrfs == nil {
		t.vrfs = map[int]*VRF{}
	}
	v := &VRF{table: t, number: number, routes: new(bart.Table[lookup.NextHopID])}
	t.vrfs[number] = v
	return v
}

func (t *Table) hasVRFRoutes() bool {
	for _, v := range t.vrfs {
		if v.Len() > 0 {
			return true
		}
	}
	return false
}

// Len returns the number of routes.
func (v *VRF) Len() int { return int(v.size.Load()) }

// Insert adds or replaces the route for p. After an error the VRF is unchanged.
func (v *VRF) Insert(p netip.Prefix, nh lookup.NextHopID) error {
	if err := v.table.check(p, nh); err != nil {
		return err
	}
	im, err := v.table.writable()
	if err != nil {
		return fmt.Errorf("insert %v: %w", p, err)
	}
	if err := insert(im, v.number, v.routes, p, nh); err != nil {
		return err
	}
	v.size.Store(int64(v.routes.Size()))
	return nil
}

// Delete removes the route for exactly p, and reports whether it existed.
func (v *VRF) Delete(p netip.Prefix) bool {
	found := v.table.remove(v.number, v.routes, p)
	v.size.Store(int64(v.routes.Size()))
	return found
}

// Load replaces all routes by those of seq in one step. After an error the VRF is unchanged.
func (v *VRF) Load(seq iter.Seq2[netip.Prefix, lookup.NextHopID]) error {
	im, err := v.table.writable()
	if err != nil {
		return fmt.Errorf("load routes: %w", err)
	}
	routes := new(bart.Table[lookup.NextHopID])
	for p, nh := range seq {
		if err = v.table.check(p, nh); err == nil {
			err = insert(im, staging, routes, p, nh)
		}
		if err != nil {
			break
		}
	}
	unused := im.words[VRFs+staging]
	if err == nil {
		built := unused
		unused = im.words[VRFs+v.number]
		im.storeWord(VRFs+uint32(v.number), built)
		v.routes = routes
		v.size.Store(int64(routes.Size()))
	}
	im.storeWord(VRFs+staging, 0)
	im.retire(unused)
	return err
}

// Clear removes all routes and frees the number: its lookups miss.
func (v *VRF) Clear() {
	if im := v.table.Image(); im != nil {
		word := im.words[VRFs+v.number]
		im.storeWord(VRFs+uint32(v.number), 0)
		im.retire(word)
	}
	v.routes = new(bart.Table[lookup.NextHopID])
	v.size.Store(0)
	delete(v.table.vrfs, v.number)
}

// LookupPrefix returns the longest prefix that covers addr and its next hop; ok is false
// if no prefix does.
func (v *VRF) LookupPrefix(addr netip.Addr) (p netip.Prefix, nh lookup.NextHopID, ok bool) {
	return v.table.lookupPrefix(v.number, addr)
}

// insertInto inserts all routes into an image without routes of the VRF.
func (v *VRF) insertInto(im *Image) error {
	for p, nh := range v.routes.All() {
		k := keyOf(p.Addr())
		if err := im.room(v.number, &k, p.Bits()); err != nil {
			return fmt.Errorf("copy VRF %d: %w", v.number, err)
		}
		im.set(v.number, &k, p.Bits(), route(p.Bits(), nh), 1)
	}
	return nil
}
