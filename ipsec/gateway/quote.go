package gateway

import (
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Answered returns the flow that an ICMP error belongs to, whose header is at l4 of the
// valid packet p: that of answers to the packet which it quotes. What is not quoted of
// that packet, such as ports, is hidden. It is not ok where not even an IP header is.
//
// An error comes from any router on the way, so its own addresses say little. What it
// quotes may have come out of a tunnel and is not to go back in clear beside it (RFC 4301
// section 6.2).
func Answered(p []byte, l4 int) (f Flow, ok bool) {
	const header = 8 // of the error, in front of the quotation
	if len(p) < l4+header+packet.IPv4Len {
		return f, false
	}
	quote := p[l4+header:]
	switch {
	case quote[0]>>4 == 4:
		h := (*packet.IPv4)(quote)
		if h.HeaderLen() < packet.IPv4Len {
			return f, false
		}
		src, dst := quotedPorts(h.Protocol(), quote[min(h.HeaderLen(), len(quote)):], h.Fragmented())
		return policy.IPv4Flow(h.Dst(), h.Src(), uint8(h.Protocol()), dst, src), true
	case quote[0]>>4 == 6 && len(quote) >= packet.IPv6Len:
		to, whole := packet.FindL4(quote)
		if !whole || to.Later && to.Proto.IsExtension() {
			to = packet.L4{Proto: policy.HiddenProtocol, Offset: packet.IPv6Len}
		}
		src, dst := quotedPorts(to.Proto, quote[to.Offset:], to.Fragment)
		return policy.IPv6Flow((*[16]byte)(quote[24:40]), (*[16]byte)(quote[8:24]), uint8(to.Proto), dst, src), true
	}
	return f, false
}

// quotedPorts is ports, but of ICMP, where an answer's type is not the question's.
func quotedPorts(proto packet.Protocol, l4 []byte, fragment bool) (src, dst uint32) {
	if proto == packet.ICMP || proto == packet.ICMPv6 {
		fragment = true
	}
	return ports(proto, l4, fragment)
}
