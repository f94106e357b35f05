package esp

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// list adds packet i, valid plaintext, to the policy lookup of its block. by is the SA that it was
// decrypted by. Of an IPv6 packet, l4 of the next place is filled in.
func (s *Stage) list(p []byte, i int, by *ipsec.SA) {
	n := s.n
	s.at[n], s.inSA[n] = int32(i), by
	if p[0]>>4 == 4 {
		gateway.ReadIPv4(&s.flows[n], p)
	} else {
		gateway.ReadIPv6(&s.flows[n], p, s.l4[n])
	}
	s.n = n + 1
}

// lookUpPolicies looks up the policies of all listed packets: inbound ones (RFC 4301 section
// 5.2), and outbound ones with the SAs that they name (section 5.1).
func (s *Stage) lookUpPolicies(in []batch.Frame) {
	x := s.gateway.Interfaces()
	if s.hasInterfaces = x != nil; s.hasInterfaces {
		s.lookUpRoutedPolicies(in, x)
		return
	}
	s.gateway.CheckInboundBatch(&s.lookups, s.inbound[:], s.flows[:s.n], s.inSA[:])
	s.gateway.LookupOutboundBatch(&s.lookups, s.outSA[:], s.outbound[:], s.flows[:s.n])
}

// inboundDrop returns the drop of listed packet j, which the inbound policies refuse.
func (s *Stage) inboundDrop(p []byte, j int) batch.Result {
	if r := s.reassembleTransport(p, j); r.Verdict != 0 {
		return r
	}
	return dropFor(s.inbound[j])
}

// hop returns the next hop to an address.
func (s *Stage) hop(dst netip.Addr) fib.NextHop { return s.fib.NextHop(s.lookup(dst)) }

// lookup returns the number of the next hop to an address.
func (s *Stage) lookup(dst netip.Addr) fib.NextHopID {
	if dst.Is4() {
		b := dst.As4()
		return s.fib.IPv4.Lookup(binary.BigEndian.Uint32(b[:]))
	}
	return s.fib.IPv6.Lookup(dst.As16())
}
