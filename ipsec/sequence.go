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

// lease is the sequence numbers that a worker has taken and not used yet: from next up to
// end, which is not one of them.
type lease struct {
	next, end      uint64
	expected       int    // packets for which numbers will be needed
	open           bool   // from Expect to Release
	packets, bytes uint64 // counted since: a store that others read costs more than a packet's header
}

// Expect tells that a worker has one more packet to protect. The first that it protects
// takes the numbers of all that are expected, so that workers of one association do not
// contend for every packet. Release comes behind the last.
func (s *SA) Expect(w int) {
	l := &s.workers[w].lease
	l.expected++
	l.open = true
}

// next takes a sequence number for a worker's packet.
func (s *SA) next(w int) (seq uint64, ok bool) {
	l := &s.workers[w].lease
	if l.next == l.end {
		first, n := s.Reserve(max(l.expected, 1))
		if n == 0 {
			return 0, false
		}
		l.next, l.end, l.expected = first, first+uint64(n), 0
	}
	seq = l.next
	l.next++
	return seq, true
}

// Release gives back the numbers that expected packets did not take, if nobody has taken
// any since; otherwise they leave a gap.
func (s *SA) Release(w int) {
	mine := &s.workers[w]
	l := &mine.lease
	if !l.open {
		return
	}
	if l.next != l.end {
		s.sequence.CompareAndSwap(l.end-1, l.next-1)
	}
	if l.packets > 0 {
		add(&mine.packets, l.packets)
		add(&mine.bytes, l.bytes)
	}
	*l = lease{}
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
