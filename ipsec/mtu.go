package ipsec

// MTU returns the size of packets that fit the way of an association, if that was set
// with this generation of routes.
func (s *SA) MTU(generation uint64) (mtu int, ok bool) {
	v := s.mtu.Load()
	return int(v & 0xffffff), v>>24 == generation&(1<<40-1)+1
}

// SetMTU notes what MTU returns.
func (s *SA) SetMTU(generation uint64, mtu int) {
	s.mtu.Store((generation&(1<<40-1)+1)<<24 | uint64(mtu))
}

// InnerMTU returns how large a packet with the headers of the valid packet p may be, so that
// what Encapsulate makes of it is no larger than mtu; 0 or less if none is small enough.
func (s *SA) InnerMTU(mtu int, p []byte) int {
	kept := 0 // of the packet in front of ESP
	if s.mode == Transport {
		var h header
		_ = h.parse(p) && h.extend(p[:h.total], true)
		kept = h.len
	}
	room := mtu - int(s.outer+s.udp) - kept - espLen - int(s.icv+s.iv)
	return kept + room&^(int(s.align)-1) - trailerLen
}

// PathMTU returns the size of packets that fit the path to a tunnel's other end where that
// is narrower than the port that leads there, in bytes; 0 if nobody said so.
func (s *SA) PathMTU() int { return int(s.pathMTU.Load()) }

// SetPathMTU notes what PathMTU returns. What MTU returns is not changed by it: that is to
// be found anew with another generation of routes.
func (s *SA) SetPathMTU(mtu int) { s.pathMTU.Store(uint32(mtu)) }

// Sent returns the whole of an outbound sequence number of which low are the lower 32 bits, if the
// number was taken after the one that is since: so that a packet that has it may have left.
func (s *SA) Sent(low uint32, since uint64) (seq uint64, ok bool) {
	last := s.sequence.Load()
	age := uint64(uint32(last) - low)
	if age >= last {
		return 0, false
	}
	return last - age, last-age > since
}

// MayBeCut reports whether packets that leave by the association may be fragmented where
// those that they carry may.
func (s *SA) MayBeCut() bool {
	return s.dst.Is4() && (s.mode == Transport || s.df != SetDF)
}
