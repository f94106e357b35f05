package ipsec

import "sync"

// The host can lend sequence numbers of an outbound SA to a device, which then gives them to packets by itself. Until the
// host takes the rest back (Return), it takes its own numbers from the device too, so that none is used twice. If the device
// is lost, the host continues after the last lent number (Revoke).

// Lender is a device with lent numbers.
type Lender interface {
	// Take takes numbers of SAs for the host, with SAs of this device only. Of an SA whose device is lost, or which has
	// no more numbers, it ends the loan.
	Take(all []Taking)
	// Reclaim ends the loan of an SA: the host takes the rest of its numbers back.
	Reclaim(s *SA)
}

// Taking is a request for N numbers of an SA. The result has the first of them, if there are any.
type Taking struct {
	SA    *SA
	First uint64
	N     uint64
	got   bool
}

// Got records the first of the numbers.
func (t *Taking) Got(first uint64) { t.First, t.got = first, true }

// lent marks SA.sequence while numbers are lent: the lower bits are the last lent number, of at most maxDeviceSeq. No SA gets to
// such numbers by packets.
const lent = 1 << 63

// isLent reports whether a value of SA.sequence has the mark. If nothing was lent since the start, bit 63 belongs to a number.
func (s *SA) isLent(used uint64) bool { return used&^maxDeviceSeq == lent && s.loan.Load() != nil }

// lastUsed returns the number without the mark: the last one that packets may have.
func (s *SA) lastUsed(used uint64) uint64 {
	if s.isLent(used) {
		return used &^ lent
	}
	return used
}

// loan is what the host keeps of an SA whose numbers are lent.
type loan struct {
	to              Lender
	before, packets uint64 // the last number taken before, and the packets by then
}

// Lend lends up to n numbers to a device, from first to last. ok is false if the SA has none, is not usable, has limits
// in packets or bytes, or is lent already, or if the device does not have its base of nonces. Only one goroutine at a time
// lends the numbers of an SA.
func (s *SA) Lend(n uint64, to Lender) (first, last uint64, ok bool) {
	if s.direction != Out || s.counted || s.Usable(Out) != OK || s.nonces.Base() != s.nonces.DeviceBase() {
		return 0, 0, false
	}
	for {
		used := s.sequence.Load()
		if s.isLent(used) {
			return 0, 0, false
		}
		last = min(used+n, s.lastPermitted(), maxDeviceSeq)
		if last <= used {
			return 0, 0, false
		}
		s.loan.Store(&loan{to: to, before: used, packets: s.Stats().Packets}) // before the bit is set: who sees the bit loads the loan
		if s.sequence.CompareAndSwap(used, last|lent) {
			if s.nonces.Base() != s.nonces.DeviceBase() { // it has changed since, before EndLoan could see the loan
				s.Return(used + 1)
				return 0, 0, false
			}
			return used + 1, last, true
		}
	}
}

// Extend lends n numbers more, or as many as there are, and returns the last one. It is 0 if there are none.
func (s *SA) Extend(n uint64) (last uint64) {
	used := s.sequence.Load()
	if last = min(used&^lent+n, s.lastPermitted(), maxDeviceSeq); !s.isLent(used) || last <= used&^lent || !s.sequence.CompareAndSwap(used, last|lent) {
		return 0
	}
	return last
}

// Return ends the loan. The device has not used the numbers from next on.
func (s *SA) Return(next uint64) {
	l := s.loan.Load()
	if used := s.sequence.Load(); s.isLent(used) {
		s.sequence.CompareAndSwap(used, min(max(next-1, l.before), used&^lent))
	}
}

// Revoke ends the loan of a device that is lost: it may have used all numbers.
func (s *SA) Revoke() {
	if used := s.sequence.Load(); s.isLent(used) {
		s.sequence.CompareAndSwap(used, used&^lent)
	}
}

// WasLent reports whether a number is one of the last loan.
func (s *SA) WasLent(number uint64) bool {
	l := s.loan.Load()
	return l != nil && number > l.before && number <= s.lastUsed(s.sequence.Load())
}

// EndLoan ends the loan, if there is one.
func (s *SA) EndLoan() {
	if l := s.Lender(); l != nil {
		l.Reclaim(s)
	}
}

// Lender returns the device that numbers are lent to, or nil.
func (s *SA) Lender() Lender {
	if !s.isLent(s.sequence.Load()) {
		return nil
	}
	return s.loan.Load().to
}

// takings are buffers of takeRequested. Numbers are taken from a device seldom, by some packets of a chunk.
var takings = sync.Pool{New: func() any { return new([MaxPrefetch]Taking) }}

// takeRequested takes the numbers that a worker has requested of lent SAs.
func takeRequested(sas []*SA, w int) {
	var all *[MaxPrefetch]Taking
	n := 0
	for _, s := range sas {
		r := &s.workers[w].reserved
		if !s.isLent(s.sequence.Load()) || r.next != r.end || r.requested == 0 {
			continue
		}
		if all == nil {
			all = takings.Get().(*[MaxPrefetch]Taking)
		}
		all[n] = Taking{SA: s, N: uint64(r.requested)}
		r.requested = 0
		n++
	}
	if all == nil {
		return
	}
	takeLent(all[:n])
	for i := range all[:n] {
		switch t := &all[i]; {
		case t.got:
			t.SA.hold(&t.SA.workers[w].reserved, t.First, t.N)
		default:
			t.SA.workers[w].reserved.requested = int32(t.N) // by the host now
		}
	}
	takings.Put(all)
}

// takeLent takes numbers of SAs that were lent, in runs of one device.
func takeLent(all []Taking) {
	for len(all) > 0 {
		to, n := all[0].SA.Lender(), 1
		for n < len(all) && all[n].SA.Lender() == to {
			n++
		}
		if to != nil {
			to.Take(all[:n])
		}
		all = all[n:]
	}
}
