package gateway

import (
	"slices"

	"github.com/warproute/warproute/ipsec"
)

// Traffic counts the packets of a tunnel in one direction, by its current and previous SAs: it never
// decreases when an SA ends. It ends with the tunnel, when Retire removes it.
type Traffic struct {
	Tunnel    string
	Direction ipsec.Direction
	ipsec.Stats
}

// past is the removed SAs of a tunnel in one direction.
type past struct {
	any     bool
	stats   ipsec.Stats // of SAs without users
	leaving []*ipsec.SA // workers may still count packets of these
}

func (p *past) add(s *ipsec.SA) {
	p.settle() // bounds the list, also if nobody calls Traffic
	p.any = true
	p.leaving = append(p.leaving, s)
}

// settle adds up the SAs whose keys are overwritten: no worker uses them any more.
func (p *past) settle() {
	p.leaving = slices.DeleteFunc(p.leaving, func(s *ipsec.SA) bool {
		over := s.Killed()
		if over {
			p.stats.Add(s.Stats())
		}
		return over
	})
}

// Traffic lists the traffic of all tunnels with SAs, now or earlier. It is for the goroutine that
// changes the gateway.
func (g *Gateway) Traffic() (all []Traffic) {
	type sum struct {
		any   bool
		stats ipsec.Stats
	}
	sums := make([][2]sum, len(g.tunnels.all))
	count := func(n uint32, d ipsec.Direction, stats ipsec.Stats) {
		s := &sums[n][d]
		s.any = true
		s.stats.Add(stats)
	}
	for s := range g.All {
		count(s.Tunnel(), s.Config().Direction, s.Stats())
	}
	for _, n := range g.tunnels.numbers { // excludes retired tunnels, whose numbers may be reused
		b := g.tunnels.all[n]
		for _, d := range []ipsec.Direction{ipsec.Out, ipsec.In} {
			p := &b.past[d]
			if p.any {
				p.settle()
				count(n, d, p.stats)
			}
			for _, s := range p.leaving {
				count(n, d, s.Stats())
			}
			if s := sums[n][d]; s.any {
				all = append(all, Traffic{b.name, d, s.stats})
			}
		}
	}
	return all
}
