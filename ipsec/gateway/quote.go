package gateway

import (
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Quote is the packet that an ICMP error quotes, as far as policies need it (RFC 4301 section 6.2).
type Quote struct {
	Answer Flow       // answers to the quoted packet; fields that are not quoted, such as ports, are hidden
	Dst    netip.Addr // destination of the quoted packet
	Honest bool       // a router may have sent the error: see honest
}

// Sizes in bytes of the longest ICMP errors, IP header included (RFC 1812 section 4.3.2.3,
// RFC 4443 section 2.4(c)).
const (
	maxErrorIPv4 = 576
	maxErrorIPv6 = 1280
)

// ReadQuote reads the packet that an ICMP error quotes. p is the valid IP packet of the error, whose
// ICMP header is at l4. It is not ok if less than an IP header is quoted.
func ReadQuote(p []byte, l4 int) (q Quote, ok bool) {
	const header = 8 // of the error, in front of the quotation
	if p[0]>>4 == 4 {
		p = p[:min((*packet.IPv4)(p).TotalLen(), len(p))] // padding of the link is no quotation
	} else {
		p = p[:min(packet.IPv6Len+(*packet.IPv6)(p).PayloadLen(), len(p))]
	}
	if len(p) < l4+header+packet.IPv4Len {
		return q, false
	}
	quote := p[l4+header:]
	q.Honest = honest(p, p[l4], quote)
	switch {
	case quote[0]>>4 == 4:
		h := (*packet.IPv4)(quote)
		if h.HeaderLen() < packet.IPv4Len {
			return q, false
		}
		src, dst := quotedPorts(h.Protocol(), quote[min(h.HeaderLen(), len(quote)):], h.Fragmented())
		q.Answer = policy.IPv4Flow(h.Dst(), h.Src(), uint8(h.Protocol()), dst, src)
		q.Dst = netip.AddrFrom4([4]byte(quote[16:20]))
		return q, true
	case quote[0]>>4 == 6 && len(quote) >= packet.IPv6Len:
		to, whole := packet.FindL4(quote)
		if !whole || to.Later && to.Proto.IsExtension() {
			to = packet.L4{Proto: policy.HiddenProtocol, Offset: packet.IPv6Len}
		}
		src, dst := quotedPorts(to.Proto, quote[to.Offset:], to.Fragment)
		q.Answer = policy.IPv6Flow((*[16]byte)(quote[24:40]), (*[16]byte)(quote[8:24]), uint8(to.Proto), dst, src)
		q.Dst = netip.AddrFrom16([16]byte(quote[24:40]))
		return q, true
	}
	return q, false
}

// honest reports whether an ICMP error p looks like one that a router sent about a packet of which
// quote is at least an IPv4 header: it goes to the source of that packet, is no longer than errors
// are, and has a type that routers send beyond their links. Redirects are for the link alone
// (RFC 1812 section 5.2.7.2), source quench is obsolete (RFC 6633).
func honest(p []byte, typ byte, quote []byte) bool {
	const types4, types6 = 1<<3 | 1<<11 | 1<<12, 1<<1 | 1<<2 | 1<<3 | 1<<4
	if p[0]>>4 != quote[0]>>4 || typ >= 32 {
		return false
	}
	if p[0]>>4 == 4 {
		return types4>>typ&1 != 0 && len(p) <= maxErrorIPv4 && [4]byte(p[16:]) == [4]byte(quote[12:])
	}
	return types6>>typ&1 != 0 && len(p) <= maxErrorIPv6 && len(quote) >= packet.IPv6Len && [16]byte(p[24:]) == [16]byte(quote[8:])
}

// quotedPorts is ports, but of ICMP, where an answer's type is not the question's.
func quotedPorts(proto packet.Protocol, l4 []byte, fragment bool) (src, dst uint32) {
	if proto == packet.ICMP || proto == packet.ICMPv6 {
		fragment = true
	}
	return ports(proto, l4, fragment)
}

// ErrorMayEnter is MayEnter for an ICMP error: it judges what the error quotes as well. headers is
// what MayEnter says of the error's own addresses.
//
// An error out of a tunnel that no policy selects may enter if it is honest and answers to the quoted
// packet may come by the same association; with StrictErrors every error out of a tunnel has to. One
// that arrived in clear may not be about packets that are protected: no router in between sees them.
func (g *Gateway) ErrorMayEnter(q *Quote, headers ipsec.Error, by *ipsec.SA) ipsec.Error {
	stranger := by != nil && headers == ipsec.InNoPols
	inspected := headers == ipsec.OK && (by == nil || g.StrictErrors)
	switch {
	case !stranger && !inspected:
		return headers
	case by != nil && !q.Honest:
		return ipsec.InNoPols
	}
	return g.MayEnter(&q.Answer, by)
}

// ProtectError is Protect for an ICMP error that may leave in clear by its own addresses: an error
// about a protected packet is protected as answers to that are, and does not leave if it is not
// allowed, which has the caller say whether it comes from where the quoted packet went. No
// association is asked for because of an error (RFC 4301 section 6.2).
func (g *Gateway) ProtectError(q *Quote, allowed bool) (*ipsec.SA, ipsec.Error) {
	r := g.lookup()
	n, v := r.out.Lookup(&q.Answer)
	switch {
	case n == policy.None || v.Action() == policy.Bypass:
		return nil, ipsec.OK
	case v.Action() == policy.Discard, !q.Honest, !allowed:
		return nil, ipsec.OutPolBlock
	}
	switch s := r.current.of(v.Target()).Load(); {
	case s == nil:
		return nil, ipsec.OutNoStates
	case s.Mode() == ipsec.Transport: // it carries no error of another router
		return nil, ipsec.OutStateModeError
	default:
		return s, ipsec.OK
	}
}
