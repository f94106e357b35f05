package ipsec

// Touch reads what a worker needs of an association, and returns something of it. It is
// for those who have several packets at hand: called for all before the first is
// protected, it has their cache misses overlap, which in the course of Encapsulate and
// Decapsulate would wait for one another.
func (s *SA) Touch(w int) uint64 {
	mine := &s.workers[w]
	return s.sequence.Load() + s.replay.top.Load() + mine.packets.Load() + mine.transform.Touch()
}
