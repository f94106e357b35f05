package lookup6

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/warproute/warproute/lookup"
)

// route is a prefix as numbers: hi and lo are its address, first bit highest.
type route struct {
	hi, lo uint64
	bits   int
	nh     lookup.NextHop
	parent *route // the longest of the others that covers this one, or nil
}

// collect returns the routes in the order of their addresses, of equal addresses
// the shorter prefix first: so a prefix comes before all that it covers.
func collect(seq Routes) []route {
	var all []route
	for p, nh := range seq {
		a := p.Addr().As16()
		hi, lo := halves(&a)
		all = append(all, route{hi: hi, lo: lo, bits: p.Bits(), nh: nh})
	}
	slices.SortFunc(all, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.bits, b.bits))
	})
	var open *route // the latest route; its parents are all that may cover the next
	for i := range all {
		r := &all[i]
		for open != nil && !open.covers(r) {
			open = open.parent
		}
		r.parent, open = open, r
	}
	return all
}

// covers reports whether every address of a longer prefix is also in r.
func (r *route) covers(longer *route) bool {
	hi, lo := masked(longer.hi, longer.lo, r.bits)
	return hi == r.hi && lo == r.lo
}

// within returns r or the longest route around it that has at most so many bits, or nil.
func (r *route) within(bits int) *route {
	for r != nil && r.bits > bits {
		r = r.parent
	}
	return r
}

// nextHop is r's, or lookup.Miss if there is no route.
func (r *route) nextHop() lookup.NextHop {
	if r == nil {
		return lookup.Miss
	}
	return r.nh
}

// halves returns an address as two numbers.
func halves(a *[16]byte) (hi, lo uint64) {
	return binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
}

// masked keeps the first bits of an address.
func masked(hi, lo uint64, bits int) (uint64, uint64) {
	m := &masks[bits]
	return hi & m[0], lo & m[1]
}

// masks has the mask of every prefix length.
var masks = func() (m [129][2]uint64) {
	for bits := range m {
		m[bits] = [2]uint64{^(^uint64(0) >> min(bits, 64)), ^(^uint64(0) >> max(bits-64, 0))}
	}
	return m
}()

// window returns 64 bits of an address from the given one on, zeros beyond the last.
func window(hi, lo uint64, from int) uint64 {
	if from < 64 {
		return hi<<from | lo>>(64-from)
	}
	return lo << (from - 64)
}
