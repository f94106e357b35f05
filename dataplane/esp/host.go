package esp

import (
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// A packet out of a tunnel for the host itself is not forwarded: it may have any TTL or hop limit. BGP sessions
// between neighbors use 1. Engines only look up packets to forward, so the stage decides on these.

// forHost reports whether a packet out of a tunnel that has a TTL or hop limit of 0 or 1, and is valid otherwise, is
// for the host. Of an IPv6 packet, l4 is filled in.
func (s *Stage) forHost(p []byte, l4 *packet.L4) bool {
	if s.hop(ipsec.Destination(p)).Kind() != fib.KindLocal {
		return false
	}
	if p[0]>>4 == 4 {
		return true
	}
	var whole bool
	*l4, whole = packet.FindL4(p[:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()])
	return whole && !l4.Routing0
}

// expired reports whether listed packet j has a TTL or hop limit of 0 or 1: it is one forHost.
func (s *Stage) expired(p []byte, j int) bool {
	if s.inSA[j] == nil {
		return false
	}
	if p[0]>>4 == 4 {
		return (*packet.IPv4)(p).TTL() <= 1
	}
	return (*packet.IPv6)(p).HopLimit() <= 1
}
