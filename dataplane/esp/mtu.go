package esp

import (
	"math"
	"sync/atomic"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
)

// mtuOf returns the MTU of an SA's route, its port and the path behind it, in bytes of ESP packet.
// Without a route, or with the port down, it is large: the engine drops the packets for that.
func (s *Stage) mtuOf(sa *ipsec.SA) int {
	generation := s.fib.Changes()
	if mtu, ok := sa.MTU(generation); ok {
		return mtu
	}
	mtu := math.MaxUint16
	if hop := s.hop(sa.Dst()); hop.Kind() == fib.KindForward {
		adjacency := hop.Index()
		if hop.Group() { // its paths are assumed to have the same MTU
			adjacency = atomic.LoadUint32(&s.groups[adjacency*fib.Buckets])
		}
		if m := s.fib.Port(s.fib.Adjacency(adjacency).Port()).MTU(); m != 0 {
			mtu = int(hop.Limit(m))
		}
	}
	if m := sa.PathMTU(); m != 0 {
		mtu = min(mtu, m)
	}
	sa.SetMTU(generation, mtu)
	return mtu
}
