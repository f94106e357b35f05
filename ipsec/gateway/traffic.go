package gateway

import (
	"slices"

	"github.com/warproute/warproute/ipsec"
)

// Traffic is what passed by a bundle in one direction, by the associations of the day and by
// those that they replaced: it does not fall when one ends. It ends with the bundle itself,
// which Retire forgets when neither an association nor a policy is left of it.
type Traffic struct {
	Bundle    string
	Direction ipsec.Direction
	Packets   uint64 // as associations count them
}

// past is the associations of a bundle in one direction that were removed.
type past struct {
	any     bool
	packets uint64      // of those that count no more
	leaving []*ipsec.SA // workers may still be counting with them
}

func (p *past) add(s *ipsec.SA) {
	p.settle() // so that there are few, also where nobody asks for Traffic
	p.any = true
	p.leaving = append(p.leaving, s)
}

// settle forgets those whose keys are overwritten: every worker has finished with them.
func (p *past) settle() {
	p.leaving = slices.DeleteFunc(p.leaving, func(s *ipsec.SA) bool {
		over := s.Killed()
		if over {
			p.packets += s.Stats().Packets
		}
		return over
	})
}

// Traffic lists what passed by all bundles that have, or had, associations. It is for the
// goroutine that changes the gateway.
func (g *Gateway) Traffic() (all []Traffic) {
	type sum struct {
		any     bool
		packets uint64
	}
	sums := make([][2]sum, len(g.bundles.all))
	count := func(n uint32, d ipsec.Direction, packets uint64) {
		s := &sums[n][d]
		s.any, s.packets = true, s.packets+packets
	}
	for s := range g.All {
		count(s.Bundle(), s.Config().Direction, s.Stats().Packets)
	}
	for _, n := range g.bundles.numbers { // no retired one, whose name may be another's by now
		b := g.bundles.all[n]
		for _, d := range []ipsec.Direction{ipsec.Out, ipsec.In} {
			p := &b.past[d]
			if p.any {
				p.settle()
				count(n, d, p.packets)
			}
			for _, s := range p.leaving {
				count(n, d, s.Stats().Packets)
			}
			if s := sums[n][d]; s.any {
				all = append(all, Traffic{b.name, d, s.packets})
			}
		}
	}
	return all
}
