package ipsec

// The host can reserve numbers for packets that it has not read, and expects to be of one SA. A device writes them to the
// packets that are. Numbers of other packets leave gaps, which receivers take for loss.

// ReserveUnread reserves n consecutive sequence numbers of an outbound SA that devices can write, from first on. ok is
// false, and no number is used, if the SA is not usable or has limits in packets or bytes (Limited), if it has fewer
// numbers left, if they are lent, or if devices do not have its base of nonces.
func (s *SA) ReserveUnread(n int) (first uint64, ok bool) {
	if s.counted || s.isLent(s.sequence.Load()) || !s.ready(Out) && s.usable(Out) != OK || s.nonces.Base() != s.nonces.DeviceBase() {
		return 0, false
	}
	first, got := s.Reserve(n)
	if last := first + uint64(got) - 1; got < n || last > maxDeviceSeq {
		s.sequence.CompareAndSwap(last, first-1)
		return 0, false
	}
	return first, true
}

// Assign makes a number, of ReserveUnread or of a device, that of the next packet that worker w encrypts. It returns the
// worker's other numbers of the SA, for Restore.
func (s *SA) Assign(w int, seq uint64) (others Reserved) {
	base, r := s.nonces.Base(), &s.workers[w].reserved
	others = Reserved(*r)
	*r = reservation{next: seq, end: seq + 1, nonceBase: base, forDevice: base == s.nonces.DeviceBase(), requested: r.requested}
	return others
}

// Restore gives a worker back the numbers that it had before Assign. The assigned one leaves a gap if it was not used.
func (s *SA) Restore(w int, others Reserved) { s.workers[w].reserved = reservation(others) }
