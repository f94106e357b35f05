package ipsec

// Touch reads what a worker needs of an association, and returns something of it. It is
// for those who have several packets at hand: called for all before the first is
// protected, it has their cache misses overlap, which in the course of Encapsulate and
// Decapsulate would wait for one another. Keys are not needed where a device has them.
func (s *SA) Touch(w int, keys bool) uint64 {
	mine := &s.workers[w]
	some := s.sequence.Load() + s.replay.top.Load() + mine.packets.Load()
	if keys {
		some += mine.transform.Touch()
	}
	return some
}
