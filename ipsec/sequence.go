package ipsec

import (
	"math"

	"github.com/warproute/warproute/internal/prefetch"
)

// Reserve takes the next n sequence numbers of an outbound SA for the caller: first to
// first+count-1. Near the end of the numbers count is smaller, then 0: they never wrap (RFC 4303
// section 3.3.3). Unused numbers leave a gap, which receivers take for loss.
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

// lease is a range of sequence numbers that a worker has taken and not used: from next up to, not
// including, end. Their nonces are the number plus base, modulo 2^64: see Nonces.
type lease struct {
	next, end uint64
	base      uint64
	expected  int // packets for which Lease takes numbers
}

// Expect announces one more packet of a worker. Lease follows the last one, and Release their
// encryption.
func (s *SA) Expect(w int) { s.workers[w].lease.expected++ }

// Lease takes sequence numbers for all packets that a worker has announced, once per SA, so that
// workers that share an SA do not contend for every packet. An SA may be listed more than once.
//
// The cache line of an SA's numbers is in the cache of the worker that took numbers last. Lease
// first prefetches the lines of all SAs, then takes their numbers in a row: the transfers overlap,
// and other workers have little time to take a line back.
func Lease(sas []*SA, w int) {
	prefetch.Write(sas, contended)
	for _, s := range sas {
		if l := &s.workers[w].lease; l.next == l.end {
			s.lease(l, l.expected)
			l.expected = 0
		}
	}
}

// lease takes up to n numbers. It is not ok if none is left.
func (s *SA) lease(l *lease, n int) bool {
	first, n := s.Reserve(n)
	if n > 0 {
		l.next, l.end, l.base = first, first+uint64(n), s.nonces.Base()
	}
	return n > 0
}

// next takes a sequence number for a packet, from the worker's lease if that has any left. It
// returns 0, which no packet has, when all numbers are used.
func (s *SA) next(l *lease) (seq uint64) {
	if l.next == l.end && !s.lease(l, 1) {
		return 0
	}
	l.next++
	return l.next - 1
}

// Release returns the unused numbers of a worker's lease, if no other worker has taken any since;
// otherwise they leave a gap.
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

// Skip marks every number up to seq as used: numbers that an earlier run of the router used or may
// have used. Inbound, they count as received; no worker may use the SA during the call then.
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

// Infer returns the full sequence number for a packet's lower half, and whether it may be new. It
// is called before authentication and changes nothing.
func (s *SA) Infer(low uint32) (seq uint64, ok bool) {
	seq = uint64(low)
	if s.extended {
		if seq, ok = s.replay.infer(low); !ok {
			return 0, false
		}
	}
	return seq, s.replay.fresh(seq)
}

// Accept marks the number of an authentic packet as received and reports whether it was new. Of
// concurrent calls with one number exactly one reports true.
func (s *SA) Accept(seq uint64) bool { return s.replay.accept(seq) }
