package gateway

import (
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// AnswersInPlaintext reports whether answers to a valid packet may leave in plaintext: no outbound policy protects or
// discards them, nor ICMP errors between the same addresses.
func (g *Gateway) AnswersInPlaintext(p []byte) bool {
	table := g.Outbound()
	plain := func(f *Flow) bool {
		n, v := table.Lookup(f)
		return n == policy.None || v.Action() == policy.Bypass
	}
	var answer, err Flow
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		src, dst := quotedPorts(h.Protocol(), p[packet.IPv4Len:h.TotalLen()], h.Fragmented())
		answer.SetIPv4(h.Dst(), h.Src(), uint8(h.Protocol()), dst, src)
		err.SetIPv4(h.Dst(), h.Src(), uint8(packet.ICMP), policy.HiddenPort, policy.HiddenPort)
		return plain(&answer) && plain(&err)
	}
	l4, ok := packet.FindL4(p)
	if !ok {
		return false
	}
	proto := l4.Proto
	if l4.Later && proto.IsExtension() { // only the first fragment has the transport protocol
		proto = policy.HiddenProtocol
	}
	src, dst := quotedPorts(proto, p[min(l4.Offset, len(p)):], l4.Fragment)
	from, to := (*[16]byte)(p[24:40]), (*[16]byte)(p[8:24])
	answer.SetIPv6(from, to, uint8(proto), dst, src)
	err.SetIPv6(from, to, uint8(packet.ICMPv6), policy.HiddenPort, policy.HiddenPort)
	return plain(&answer) && plain(&err)
}
