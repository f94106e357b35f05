package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// checkICMPErrorPolicy applies the policies to the packets that ICMP errors quote (RFC 4301
// section 6.2). An error has the address of any router on the path, so its own addresses may
// select no policy, although it is about a protected packet.
func (s *Stage) checkICMPErrorPolicy(in []batch.Frame) {
	for j := range s.n {
		if s.flows[j].ICMPError() {
			s.checkQuote(&in[s.at[j]], j)
		}
	}
}

// checkQuote does so for listed packet j, an ICMP error.
func (s *Stage) checkQuote(f *batch.Frame, j int) {
	p, l4 := s.frames.Packet(*f), packet.IPv4Len
	if p[0]>>4 == 6 {
		l4 = s.l4[j].Offset
	}
	q, ok := gateway.ReadQuote(p, l4)
	if !ok {
		if s.inSA[j] != nil && s.gateway.StrictErrors && s.inbound[j] == ipsec.OK {
			s.inbound[j] = ipsec.InNoPols
		}
		return
	}
	s.inbound[j] = s.gateway.CheckInboundError(&q, s.inbound[j], s.inSA[j])
	if s.outSA[j] == nil && s.outbound[j] == ipsec.OK {
		s.outSA[j], s.outbound[j] = s.gateway.LookupOutboundError(&q, s.mayReport(&q, *f, s.inSA[j]))
	}
}

// mayReport reports whether an ICMP error comes from the path of the packet that it quotes: out of
// that packet's tunnel, from this router, or by a port that leads to the quoted destination. Hosts
// on the untrusted side cannot send errors into a tunnel.
func (s *Stage) mayReport(q *gateway.Quote, f batch.Frame, by *ipsec.SA) bool {
	switch {
	case f.Origin.Has(batch.Own):
		return true
	case by != nil:
		return s.gateway.CheckInbound(&q.Answer, by) == ipsec.OK
	}
	return !s.gateway.StrictErrors && s.fib.PassesRPF(fib.RPFStrict, f.Origin.Port(), s.lookup(q.Dst))
}
