package mirror

// A port in a bond or team is paused, since that receives in place of its members, and so is a port in a VRF on an
// IPsec gateway, which only has the main table. Routes over a paused port drop
// packets, as over any link that is not a port.

// pause pauses a port whose link joined a VRF, bond or team.
func (s *state) pause(number, link int) {
	p := &s.ports[number]
	p.paused, p.up = true, false
	s.forgetNeighborsOn(link)
	s.writePort(number)
	s.reportPaused(number)
}

// resume resumes a paused port.
func (s *state) resume(number int) {
	p := &s.ports[number]
	if !p.paused {
		return
	}
	p.paused = false
	s.suspects.addAll() // neighbors of the link were ignored
	s.reportPaused(number)
}

func (s *state) reportPaused(number int) {
	if s.hooks.PortPaused != nil {
		s.hooks.PortPaused(number, s.ports[number].paused)
	}
}
