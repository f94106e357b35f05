package xfrm

// Stats holds the counters of the mirror.
type Stats struct {
	Associations    int // installed in the gateway
	Policies        int
	RefusedStates   int // unsupported, currently in Linux
	RefusedPolicies int
	Undecided       int    // states of unknown direction
	Events          uint64 // netlink messages
	Resyncs         uint64 // comparisons with a dump after the start
	Malformed       uint64 // messages that could not be parsed
	Acquires        uint64 // ACQUIREs sent to key daemons
	Pushes          uint64 // reports of SA use to Linux
}

// Stats returns the counters, zero after Close.
func (m *Mirror) Stats() (s Stats) {
	m.Do(func() {
		s = m.tables.stats()
		s.Events, s.Resyncs, s.Malformed = m.loop.Stats().Events, m.loop.Stats().Resyncs, m.loop.Stats().Malformed
		s.Acquires, s.Pushes = m.acquires, m.pushes
	})
	return s
}

func (t *tables) stats() (s Stats) {
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
	s.Policies = len(t.policies)
	for _, p := range t.policies {
		if p.refusal != "" {
			s.RefusedPolicies++
		}
	}
	return s
}
