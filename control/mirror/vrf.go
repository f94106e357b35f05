package mirror

// A port that is put into a VRF is lent to Linux until it is taken out of it. Its packets
// belong to a table that is not mirrored: the main one would lead them out of the VRF. What
// routes of the main table send by it is dropped, as by any link that is no port. So is a
// port that becomes a member of a bond or team, which receives in its place.

// lend lends a port, whose link was put into a VRF, bond or team.
func (s *state) lend(number, link int) {
	p := &s.ports[number]
	p.lent, p.up = true, false
	s.forgetNeighborsOn(link)
	s.writePort(number)
	s.tellLent(number)
}

// takeBack takes a port back, if it is lent.
func (s *state) takeBack(number int) {
	p := &s.ports[number]
	if !p.lent {
		return
	}
	p.lent = false
	s.suspects.everything() // the link's neighbours were none of ours
	s.tellLent(number)
}

func (s *state) tellLent(number int) {
	if s.hooks.PortLent != nil {
		s.hooks.PortLent(number, s.ports[number].lent)
	}
}
