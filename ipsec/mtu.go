package ipsec

// MTU returns the size of packets that fit the SA's path, if SetMTU stored it for this generation
// of routes.
func (s *SA) MTU(generation uint64) (mtu int, ok bool) {
	v := s.mtu.Load()
	return int(v & 0xffffff), v>>24 == generation&(1<<40-1)+1
}

// SetMTU stores the value for MTU.
func (s *SA) SetMTU(generation uint64, mtu int) {
	s.mtu.Store((generation&(1<<40-1)+1)<<24 | uint64(mtu))
}

// InnerMTU returns the largest size of a packet with the headers of the valid packet p whose
// encapsulation is no larger than mtu; 0 or less if the headers alone exceed mtu.
func (s *SA) InnerMTU(mtu int, p []byte) int {
	kept := 0 // bytes of the packet in front of ESP
	if s.mode == Transport {
		var h header
		_ = h.parse(p) && h.extend(p[:h.total], true)
		kept = h.len
	}
	room := mtu - int(s.outer+s.udp) - kept - espLen - int(s.icv+s.iv)
	return kept + room&^(int(s.align)-1) - trailerLen
}

// PathMTU returns the path MTU in bytes that routers between the gateways reported, if it is
// smaller than the port's; else 0.
func (s *SA) PathMTU() int { return int(s.pathMTU.Load()) }

// SetPathMTU stores the value for PathMTU. MTU keeps its value until the next generation of routes.
func (s *SA) SetPathMTU(mtu int) { s.pathMTU.Store(uint32(mtu)) }

// estimateGap is how far Sequence's estimate may be behind the numbers of packets that were sent, while they are lent.
const estimateGap = 1 << 16

// Sent returns the full outbound sequence number whose lower 32 bits are low, if it was taken
// after the number since.
func (s *SA) Sent(low uint32, since uint64) (seq uint64, ok bool) {
	last := min(s.LastSequence(), s.Sequence()+estimateGap)
	age := uint64(uint32(last) - low)
	if age >= last {
		return 0, false
	}
	return last - age, last-age > since
}

// MayFragment reports whether ESP packets of the SA may be fragmented if their inner packets may be.
func (s *SA) MayFragment() bool {
	return s.dst.Is4() && (s.mode == Transport || s.df != SetDF)
}
