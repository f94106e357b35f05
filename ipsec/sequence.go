package ipsec

import (
	"math"

	"github.com/warproute/warproute/internal/prefetch"
)

// Reserve reserves the next n sequence numbers of an outbound SA for the caller: first to
// first+count-1. Near the end of the numbers count is smaller, then 0: they never wrap (RFC 4303
// section 3.3.3). Unused numbers leave a gap, which receivers take for loss.
func (s *SA) Reserve(n int) (first uint64, count int) {
	last := s.lastPermitted()
	for {
		used := s.sequence.Load()
		if s.isLent(used) {
			one := [1]Taking{{SA: s, N: uint64(n)}}
			takeLent(one[:])
			if one[0].got {
				return one[0].First, int(one[0].N)
			}
			continue
		}
		if used >= last || n <= 0 {
			return 0, 0
		}
		take := min(uint64(n), last-used)
		if s.sequence.CompareAndSwap(used, used+take) {
			return used + 1, int(take)
		}
	}
}

// lastPermitted returns the largest number that the SA may use.
func (s *SA) lastPermitted() uint64 {
	last := uint64(math.MaxUint32)
	if s.extended {
		last = math.MaxUint64
	}
	if limit := s.limit.Load(); limit != 0 {
		last = min(last, limit)
	}
	return last
}

// reservation is a range of sequence numbers that a worker has reserved and not used: from next up
// to, not including, end. Their nonces are the number plus nonceBase, modulo 2^64: see Nonces.
type reservation struct {
	next, end uint64
	nonceBase uint64
	requested int32 // packets for which ReserveRequested reserves numbers
	forDevice bool  // devices can write the numbers and nonces
}

// Reserved is a worker's reservation, which Restore restores.
type Reserved reservation

// Request requests sequence numbers for n more packets of a worker. ReserveRequested follows the
// last request, and Release the encryption of the packets.
func (s *SA) Request(w, n int) { s.workers[w].reserved.requested += int32(n) }

// ReserveRequested reserves all sequence numbers that a worker has requested, once per SA, so that
// workers that share an SA do not contend for every packet. An SA may be listed more than once.
//
// The cache line of an SA's numbers is in the cache of the worker that reserved numbers last.
// ReserveRequested first prefetches the lines of all SAs, then reserves their numbers in a row: the
// transfers overlap, and other workers have little time to take a line back.
func ReserveRequested(sas []*SA, w int) {
	prefetch.Write(sas, contended+linePair/2)
	takeRequested(sas, w)
	for _, s := range sas {
		if r := &s.workers[w].reserved; r.next == r.end && r.requested > 0 {
			s.fill(r, int(r.requested))
			r.requested = 0
		}
	}
}

// fill reserves up to n numbers. It is not ok if none is left.
func (s *SA) fill(r *reservation, n int) bool {
	first, n := s.Reserve(n)
	if n > 0 {
		s.hold(r, first, uint64(n))
	}
	return n > 0
}

// hold makes n numbers a worker's reservation.
func (s *SA) hold(r *reservation, first, n uint64) {
	r.next, r.end, r.nonceBase = first, first+n, s.nonces.Base()
	r.forDevice = r.nonceBase == s.nonces.DeviceBase() && r.end <= maxDeviceSeq+1
}

// next takes a sequence number for a packet, from the worker's reservation if that has any left. It
// returns 0, which no packet has, when all numbers are used.
func (s *SA) next(r *reservation) (seq uint64) {
	if r.next == r.end && !s.fill(r, 1) {
		return 0
	}
	r.next++
	return r.next - 1
}

// Release returns a worker's reserved, unused numbers, if no other worker has reserved any since;
// otherwise they leave a gap.
func (s *SA) Release(w int) {
	if r := &s.workers[w].reserved; r.next != r.end {
		s.sequence.CompareAndSwap(r.end-1, r.next-1)
		r.next = r.end
	}
}

// Sequence returns the last sequence number taken or, inbound, the highest received. While numbers are lent, the last one
// is estimated by the packets since.
func (s *SA) Sequence() uint64 {
	if s.direction == In {
		return s.replay.highest()
	}
	used := s.sequence.Load()
	if l := s.loan.Load(); s.isLent(used) && l != nil {
		return min(used&^lent, l.before+s.Stats().Packets-l.packets)
	}
	return s.lastUsed(used)
}

// LastSequence is Sequence, but for lent numbers the last one that is lent: no packet has a higher one.
func (s *SA) LastSequence() uint64 {
	if s.direction == In {
		return s.replay.highest()
	}
	return s.lastUsed(s.sequence.Load())
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
		if s.isLent(used) {
			s.EndLoan()
			continue
		}
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
