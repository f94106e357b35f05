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
}

// collect returns the routes in the order of their addresses, of equal addresses
// the shorter prefix first: so a prefix comes before all that it covers.
func collect(seq Routes) []route {
	var all []route
	for p, nh := range seq {
		a := p.Addr().As16()
		hi, lo := halves(&a)
		all = append(all, route{hi, lo, p.Bits(), nh})
	}
	slices.SortFunc(all, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.bits, b.bits))
	})
	return all
}

// halves returns an address as two numbers.
func halves(a *[16]byte) (hi, lo uint64) {
	return binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
}

// window returns 64 bits of an address from the given one on, zeros beyond the last.
func window(hi, lo uint64, from int) uint64 {
	if from < 64 {
		return hi<<from | lo>>(64-from)
	}
	return lo << (from - 64)
}
