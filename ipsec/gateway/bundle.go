package gateway

import (
	"sync/atomic"

	"github.com/warproute/warproute/ipsec"
)

// bundle is what policies name: the outbound association of the day (see pages), or, inbound,
// all that carry its number.
type bundle struct {
	name      string
	out       []*ipsec.SA  // all outbound ones, the newest last
	uses      int          // by associations and by policies in force
	missed    atomic.Bool  // see miss
	transport atomic.Int32 // inbound associations in transport mode
	past      [2]past      // by direction; see Traffic
}

// pages are the outbound associations of the day by bundle, nil for none: all that a packet needs
// of its bundle, and eight to a cache line. A page never moves, as workers know where it is.
type pages []*[pageSize]atomic.Pointer[ipsec.SA]

const pageSize = 512

func (p pages) of(bundle uint32) *atomic.Pointer[ipsec.SA] {
	return &p[bundle/pageSize][bundle%pageSize]
}

// bundles have numbers, by which associations and policies are compared. A number is
// another's only when no worker can know any more what it was before: a packet that
// arrived by an association of the one would pass for the other.
type bundles struct {
	all     []*bundle // by number; nil: none
	current pages
	numbers map[string]uint32
	idle    []uint32 // that may be without uses
	free    []uint32
}

func (b *bundles) get(n uint32) *bundle {
	if int(n) >= len(b.all) {
		return nil
	}
	return b.all[n]
}

// leave ends a use.
func (b *bundles) leave(n uint32) {
	if b.all[n].uses--; b.all[n].uses == 0 {
		b.idle = append(b.idle, n)
	}
}

// Bundle returns the number of a bundle, which it makes if there is none of the name.
func (g *Gateway) Bundle(name string) uint32 {
	b := &g.bundles
	if n, ok := b.numbers[name]; ok {
		return n
	}
	if b.numbers == nil {
		b.numbers = map[string]uint32{}
	}
	n := uint32(len(b.all))
	if last := len(b.free) - 1; last >= 0 {
		n, b.free = b.free[last], b.free[:last]
		b.all[n] = &bundle{name: name}
	} else {
		b.all = append(b.all, &bundle{name: name})
		if n%pageSize == 0 {
			b.current = append(b.current, new([pageSize]atomic.Pointer[ipsec.SA]))
		}
	}
	b.numbers[name] = n
	b.idle = append(b.idle, n) // nothing may come of it
	return n
}

// BundleName returns the name of a bundle.
func (g *Gateway) BundleName(n uint32) string { return g.bundles.all[n].name }

// Retire forgets the names of bundles that no association in the gateway has and no
// policy in force names, and returns their numbers. They are to be freed when no worker
// knows of them. It is for when no number that Bundle gave is still to be used.
func (g *Gateway) Retire() (numbers []uint32) {
	b := &g.bundles
	for _, n := range b.idle {
		x := b.all[n]
		if x == nil || x.uses > 0 {
			continue
		}
		if named, is := b.numbers[x.name]; is && named == n {
			delete(b.numbers, x.name)
			numbers = append(numbers, n)
		}
	}
	b.idle = b.idle[:0]
	return numbers
}

// Free has numbers be given again, to other bundles. Every worker must have finished since
// Retire what it had begun.
func (g *Gateway) Free(numbers []uint32) {
	b := &g.bundles
	for _, n := range numbers {
		b.all[n] = nil
		b.current.of(n).Store(nil)
	}
	b.free = append(b.free, numbers...)
}
