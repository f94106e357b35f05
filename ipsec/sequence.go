package ipsec

import (
	"math"

	"github.com/warproute/warproute/internal/prefetch"
)

// Reserve takes the next n sequence numbers of an outbound association, for the
// caller alone: first to first+count-1. At the end of the numbers it returns fewer,
// and then none: they never start again (RFC 4303 section 3.3.3). Numbers that are
// not sent leave a gap, which receivers take for loss.
func (s *SA) Reserve(n int) (first uint64, count int) {
	last := uint64(math.MaxUint32)
	if s.extended {
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
// end, which is not one of them. Their nonces are base more, modulo 2^64: see Nonces.
type lease struct {
	next, end uint64
	base      uint64
	expected  int // packets for which Lease will take numbers
}

// Expect tells that a worker has one more packet to protect. Lease comes behind the last, and
// Release when they are protected.
func (s *SA) Expect(w int) { s.workers[w].lease.expected++ }

// Lease takes the numbers of all packets that a worker expects, of each association once:
// workers that share one do not contend for every packet. One may be listed more than once.
//
// What one worker has taken numbers of, another's processor has the line of. The numbers of all
// associations are taken in a row, right after all lines have been asked for: so the processors
// give them up at the same time, and there is hardly time for another to have one back before.
func Lease(sas []*SA, w int) {
	prefetch.Write(sas, contended)
	for _, s := range sas {
		if l := &s.workers[w].lease; l.next == l.end {
			s.lease(l, l.expected)
			l.expected = 0
		}
	}
}

// lease takes up to n numbers, and reports whether there were any.
func (s *SA) lease(l *lease, n int) bool {
	first, n := s.Reserve(n)
	if n > 0 {
		l.next, l.end, l.base = first, first+uint64(n), s.nonces.Base()
	}
	return n > 0
}

// next takes a sequence number for a packet of a worker that has lease l, from that if it has
// any left. It returns 0, which no packet has, if there is none.
func (s *SA) next(l *lease) (seq uint64) {
	if l.next == l.end && !s.lease(l, 1) {
		return 0
	}
	l.next++
	return l.next - 1
}

// Release gives back the numbers that expected packets did not take, if nobody has taken
// any since; otherwise they leave a gap.
func (s *SA) Release(w int) {
	if l := &s.workers[w].lease; l.next != l.end {
		s.sequence.CompareAndSwap(l.end-1, l.next-1)
		l.next = l.end
	}
}

// Sequence returns the last sequence number taken or, inbound, the highest received.
func (s *SA) Sequence() uint64 {
	if s.direction == In {
		return s.replay.top.Load()
	}
	return s.sequence.Load()
}

// Skip marks every number up to seq as used, if they are not: for what another
// engine or the router before a restart has sent or may have sent. Inbound, they all
// count as received; there it must not be called while workers use the association.
func (s *SA) Skip(seq uint64) {
	if s.direction == In {
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
	if s.extended {
		if seq, ok = s.replay.infer(low); !ok {
			return 0, false
		}
	}
	return seq, s.replay.fresh(seq)
}

// Accept notes the number of an authentic packet as received and reports whether it
// was new: of packets with one number, exactly one is, whoever asks at once.
func (s *SA) Accept(seq uint64) bool { return s.replay.accept(seq) }
