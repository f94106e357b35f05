package ipsec

import "math"

// Reserve takes the next n sequence numbers of an outbound association, for the
// caller alone: first to first+count-1. At the end of the numbers it returns fewer,
// and then none: they never start again (RFC 4303 section 3.3.3). Numbers that are
// not sent leave a gap, which receivers take for loss.
func (s *SA) Reserve(n int) (first uint64, count int) {
	last := uint64(math.MaxUint32)
	if s.c.ESN {
		last = math.MaxUint64
	}
	if limit := s.limit.Load(); limit != 0 {
		last = min(last, limit)
	}
	for {
		used := s.sequence.Load()
		if used >= last || n <= 0 {
			return 0, 0
		}
		take := min(uint64(n), last-used)
		if s.sequence.CompareAndSwap(used, used+take) {
			return used + 1, int(take)
		}
	}
}

// Sequence returns the last sequence number taken or, inbound, the highest received.
func (s *SA) Sequence() uint64 {
	if s.c.Direction == In {
		return s.replay.top.Load()
	}
	return s.sequence.Load()
}

// Skip marks every number up to seq as used, if they are not: for what another
// engine or the router before a restart has sent or may have sent. Inbound, they all
// count as received; there it must not be called while workers use the association.
func (s *SA) Skip(seq uint64) {
	if s.c.Direction == In {
		s.replay.skip(seq)
		return
	}
	for {
		used := s.sequence.Load()
		if used >= seq || s.sequence.CompareAndSwap(used, seq) {
			return
		}
	}
}

// Infer returns the whole of a received sequence number of which the packet carries
// the lower half, and whether it may be new. It is asked before the packet is
// authenticated, and nothing is noted.
func (s *SA) Infer(low uint32) (seq uint64, ok bool) {
	seq = uint64(low)
	if s.c.ESN {
		if seq, ok = s.replay.infer(low); !ok {
			return 0, false
		}
	}
	return seq, s.replay.fresh(seq)
}

// Accept notes the number of an authentic packet as received and reports whether it
// was new: of packets with one number, exactly one is, whoever asks at once.
func (s *SA) Accept(seq uint64) bool { return s.replay.accept(seq) }
