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

// InnerMTU returns how large a packet with an IP header of so many bytes may be, so that
// what Encapsulate makes of it is no larger than mtu; 0 or less if none is small enough.
func (s *SA) InnerMTU(mtu, header int) int {
	kept := 0 // of the packet in front of ESP
	if s.c.Mode == Transport {
		kept = header
	}
	room := mtu - s.outer - s.udp - kept - espLen - s.suite.ICVLen - s.suite.IVLen
	return kept + room&^(s.suite.Align-1) - trailerLen
}
