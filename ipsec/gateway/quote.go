package gateway

import (
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Quote holds the selectors of the packet that an ICMP error quotes (RFC 4301 section 6.2).
type Quote struct {
	Answer    Flow       // selectors of answers to the quoted packet; fields that are not quoted, such as ports, are opaque
	Dst       netip.Addr // destination of the quoted packet
	Plausible bool       // plausible error of a router: see plausible
}

// Sizes in bytes of the longest ICMP errors, IP header included (RFC 1812 section 4.3.2.3,
// RFC 4443 section 2.4(c)).
const (
	maxErrorIPv4 = 576
	maxErrorIPv6 = 1280
)

// ReadQuote parses the quoted packet of an ICMP error. p is the valid IP packet of the error, and its
// ICMP header is at p[l4:]. It is not ok if less than an IP header is quoted.
func ReadQuote(p []byte, l4 int) (q Quote, ok bool) {
	const header = 8 // ICMP header in front of the quotation
	if p[0]>>4 == 4 {
		p = p[:min((*packet.IPv4)(p).TotalLen(), len(p))] // Ethernet padding is not quoted
	} else {
		p = p[:min(packet.IPv6Len+(*packet.IPv6)(p).PayloadLen(), len(p))]
	}
	if len(p) < l4+header+packet.IPv4Len {
		return q, false
	}
	quote := p[l4+header:]
	q.Plausible = plausible(p, p[l4], quote)
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

// plausible reports whether an ICMP error p is plausible for a router: it goes to the source of the
// quoted packet (at least an IPv4 header), is no longer than errors may be, and has a type that is
// forwarded. Redirects are link-local (RFC 1812 section 5.2.7.2), source quench is obsolete
// (RFC 6633).
func plausible(p []byte, typ byte, quote []byte) bool {
	const types4, types6 = 1<<3 | 1<<11 | 1<<12, 1<<1 | 1<<2 | 1<<3 | 1<<4
	if p[0]>>4 != quote[0]>>4 || typ >= 32 {
		return false
	}
	if p[0]>>4 == 4 {
		return types4>>typ&1 != 0 && len(p) <= maxErrorIPv4 && [4]byte(p[16:]) == [4]byte(quote[12:])
	}
	return types6>>typ&1 != 0 && len(p) <= maxErrorIPv6 && len(quote) >= packet.IPv6Len && [16]byte(p[24:]) == [16]byte(quote[8:])
}

// quotedPorts is ports for a quotation: an ICMP answer's type differs from the request's.
func quotedPorts(proto packet.Protocol, l4 []byte, fragment bool) (src, dst uint32) {
	if proto == packet.ICMP || proto == packet.ICMPv6 {
		fragment = true
	}
	return ports(proto, l4, fragment)
}

// CheckInboundError is CheckInbound for an ICMP error, and also checks the quoted packet. headers is the result
// of CheckInbound for the error's own addresses.
//
// An error out of a tunnel that no policy selects may enter if it is plausible and answers to the quoted
// packet may arrive by the same SA; with StrictErrors this holds for every error out of a tunnel. A
// cleartext error must not quote a protected packet: no router on the path sees it in cleartext.
func (g *Gateway) CheckInboundError(q *Quote, headers ipsec.Error, by *ipsec.SA) ipsec.Error {
	noPolicy := by != nil && headers == ipsec.InNoPols
	inspected := headers == ipsec.OK && (by == nil || g.StrictErrors)
	switch {
	case !noPolicy && !inspected:
		return headers
	case by != nil && !q.Plausible:
		return ipsec.InNoPols
	}
	return g.CheckInbound(&q.Answer, by)
}

// LookupOutboundError is LookupOutbound for an ICMP error that may leave in cleartext by its own addresses. An error
// about a protected packet uses the SA of answers to that packet. It may not leave unless allowed: the
// caller checks that it arrived from the direction of the quoted packet. Errors do not request SAs
// (RFC 4301 section 6.2).
func (g *Gateway) LookupOutboundError(q *Quote, allowed bool) (*ipsec.SA, ipsec.Error) {
	r := g.lookup()
	n, v := r.out.Lookup(&q.Answer)
	switch {
	case n == policy.None || v.Action() == policy.Bypass:
		return nil, ipsec.OK
	case v.Action() == policy.Discard, !q.Plausible, !allowed:
		return nil, ipsec.OutPolBlock
	}
	switch s := r.current.of(v.Target()).Load(); {
	case s == nil:
		return nil, ipsec.OutNoStates
	case s.Mode() == ipsec.Transport: // carries no errors of other routers
		return nil, ipsec.OutStateModeError
	default:
		return s, ipsec.OK
	}
}
