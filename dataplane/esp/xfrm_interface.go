package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// routed is what the XFRM interfaces of a gateway add to the policy lookup of a block: the interface by
// which each listed packet leaves, and whether packets out of tunnels have sources that their interface accepts.
type routed struct {
	ifIDs  [block]uint32 // 0: none
	limits [block]uint16 // MTU of the route over the interface, 0 for none

	v4 struct {
		n    int
		at   [block]uint8
		addr [block]uint32
		hops [block]fib.NextHopID
	}
	v6 struct {
		n    int
		at   [block]uint8
		addr [block][16]byte
		hops [block]fib.NextHopID
	}
}

// lookUpRoutedPolicies is lookUpPolicies for a gateway with XFRM interfaces.
func (s *Stage) lookUpRoutedPolicies(in []batch.Frame, x *gateway.Interfaces) {
	s.route(in)
	s.gateway.CheckInboundRouted(&s.lookups, s.inbound[:], s.flows[:s.n], s.inSA[:], x)
	s.gateway.LookupOutboundRouted(&s.lookups, s.outSA[:], s.outbound[:], s.flows[:s.n], s.routed.ifIDs[:])
}

// route finds the XFRM interfaces by which the listed packets leave.
func (s *Stage) route(in []batch.Frame) {
	r := &s.routed
	r.v4.n, r.v6.n = 0, 0
	for j := range s.n {
		r.ifIDs[j], r.limits[j] = 0, 0
		if p := s.frames.Packet(in[s.at[j]]); p[0]>>4 == 4 {
			n := r.v4.n
			r.v4.at[n], r.v4.addr[n] = uint8(j), (*packet.IPv4)(p).Dst()
			r.v4.n = n + 1
		} else {
			n := r.v6.n
			r.v6.at[n], r.v6.addr[n] = uint8(j), [16]byte(p[24:40])
			r.v6.n = n + 1
		}
	}
	s.fib.IPv4.LookupBatch(r.v4.hops[:], r.v4.addr[:r.v4.n])
	s.fib.IPv6.LookupBatch(r.v6.hops[:], r.v6.addr[:r.v6.n])
	for k := range r.v4.n {
		if hop := s.fib.NextHop(r.v4.hops[k]); hop.OverXFRM() {
			s.leaveBy(in, int(r.v4.at[k]), hop)
		}
	}
	for k := range r.v6.n {
		if hop := s.fib.NextHop(r.v6.hops[k]); hop.OverXFRM() {
			s.leaveBy(in, int(r.v6.at[k]), hop)
		}
	}
}

// leaveBy records the XFRM interface of a next hop by which listed packet j leaves, by the hash of its flow.
func (s *Stage) leaveBy(in []batch.Frame, j int, hop fib.NextHop) {
	hash := uint32(0)
	if hop.Group() {
		if p := s.frames.Packet(in[s.at[j]]); p[0]>>4 == 4 {
			hash = packet.FlowHashIPv4(p, s.fib.Seed)
		} else {
			hash = packet.FlowHashIPv6(p, s.l4[j], s.fib.Seed)
		}
	}
	s.routed.ifIDs[j], s.routed.limits[j] = s.fib.IfID(hop, hash), hop.MTU()
}

// fits returns the length in bytes of the longest packet like p, listed as packet j, that an SA carries without
// fragmentation, and the interface with the SA.
func (s *Stage) fits(p []byte, j int, sa *ipsec.SA) int {
	fits := sa.InnerMTU(s.mtus[j], p)
	if s.hasInterfaces && s.routed.limits[j] != 0 {
		fits = min(fits, int(s.routed.limits[j]))
	}
	return fits
}
