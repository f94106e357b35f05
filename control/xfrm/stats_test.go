package xfrm

import "github.com/warproute/warproute/control/rtnl"

// stats counts the entries of tables.
type stats struct {
	Associations    int // installed in the gateway
	RefusedStates   int
	RefusedPolicies int
	Undecided       int // states of unknown direction
}

// Stats returns the counters of a running mirror.
func (m *Mirror) Stats() (s stats, loop rtnl.LoopStats, acquires int) {
	m.Do(func() { s, loop, acquires = m.tables.stats(), *m.loop.Stats(), m.acquires })
	return s, loop, acquires
}

func (t *tables) stats() (s stats) {
	for _, a := range t.states {
		switch {
		case a.sa != nil:
			s.Associations++
		case a.refused:
			s.RefusedStates++
		case a.waits:
			s.Undecided++
		}
	}
	for _, p := range t.policies {
		if p.refusal != "" {
			s.RefusedPolicies++
		}
	}
	return s
}
