package xfrm

// Stats is what the mirror has done so far, and what it could not do.
type Stats struct {
	Associations    int // in the gateway
	Policies        int
	RefusedStates   int // now, in Linux
	RefusedPolicies int
	Undecided       int    // states whose direction nothing tells
	Events          uint64 // read
	Resyncs         uint64 // comparisons with a dump after the first
	Malformed       uint64 // messages that could not be read
	Acquires        uint64 // times that key daemons were asked for an association
	Pushes          uint64 // times that Linux was told of an association's use
}

// Stats returns what the mirror has done; nothing once it is closed.
func (m *Mirror) Stats() (s Stats) {
	m.Do(func() {
		s = m.tables.stats()
		s.Events, s.Resyncs, s.Malformed = m.counts.events, m.counts.resyncs, m.counts.malformed
		s.Acquires, s.Pushes = m.counts.acquires, m.counts.pushes
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
