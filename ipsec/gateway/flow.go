package gateway

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Flow holds the selectors of a packet.
type Flow = policy.Flow

// FlowIPv4 returns the flow of a valid packet without options.
func FlowIPv4(p []byte) (f Flow) {
	ReadIPv4(&f, p)
	return f
}

// FlowIPv6 returns the flow of a valid packet whose transport header is at l4.
func FlowIPv6(p []byte, l4 packet.L4) (f Flow) {
	ReadIPv6(&f, p, l4)
	return f
}

// ReadIPv4 is FlowIPv4 in place.
func ReadIPv4(f *Flow, p []byte) {
	h := (*packet.IPv4)(p)
	src, dst := ports(h.Protocol(), p[packet.IPv4Len:h.TotalLen()], h.Fragmented())
	f.SetIPv4(h.Src(), h.Dst(), uint8(h.Protocol()), src, dst)
}

// ReadIPv6 is FlowIPv6 in place.
func ReadIPv6(f *Flow, p []byte, l4 packet.L4) {
	proto := l4.Proto
	if l4.Later && proto.IsExtension() { // only the first fragment has the transport protocol
		proto = policy.HiddenProtocol
	}
	src, dst := ports(proto, p[l4.Offset:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()], l4.Fragment)
	f.SetIPv6((*[16]byte)(p[8:24]), (*[16]byte)(p[24:40]), uint8(proto), src, dst)
}

// ports returns the ports, or ICMP type and code. Fragments have none, not even the first, so that
// all fragments of a packet match the same policy.
func ports(proto packet.Protocol, l4 []byte, fragment bool) (src, dst uint32) {
	const icmp, icmpv6, mobility, dccp, sctp, udplite = 1, 58, 135, 33, 132, 136
	if (proto == packet.UDP || proto == packet.TCP) && !fragment && len(l4) >= 4 { // nearly all packets
		both := binary.BigEndian.Uint32(l4)
		return both >> 16, both & 0xffff
	}
	switch proto {
	case packet.TCP, packet.UDP, icmp, icmpv6, mobility, dccp, sctp, udplite, policy.HiddenProtocol:
	default:
		return policy.NoPort, policy.NoPort
	}
	if fragment || len(l4) < 4 {
		return policy.HiddenPort, policy.HiddenPort
	}
	switch proto {
	case icmp, icmpv6:
		return uint32(l4[0]), uint32(l4[1])
	case mobility:
		return uint32(l4[2]), policy.NoPort
	}
	return uint32(binary.BigEndian.Uint16(l4)), uint32(binary.BigEndian.Uint16(l4[2:]))
}

// Inbound returns the SA for a packet to dst with this SPI, or nil.
func (g *Gateway) Inbound(spi uint32, dst netip.Addr) *ipsec.SA { return g.sad.Lookup(spi, dst) }

// PrefetchInbound prefetches the SAs of packets with some SPIs, ipsec.MaxPrefetch at most, for Inbound.
func (g *Gateway) PrefetchInbound(spis []uint32) { g.sad.Prefetch(spis) }

// CheckInbound checks a decrypted packet (by is its SA) or a cleartext one (by is nil) against the
// inbound policies (RFC 4301 section 5.2). Packets without a policy may enter in cleartext, but not
// out of a tunnel.
func (g *Gateway) CheckInbound(f *Flow, by *ipsec.SA) ipsec.Error {
	r := g.lookup()
	if id := g.Interfaces().Receiving(by); id != 0 {
		return r.checkInboundOf(id, f, by)
	}
	n, v := r.in.Lookup(f)
	return checkInbound(n, v, by)
}

// LookupOutbound returns the SA for an outbound packet, or nil if it may leave in cleartext. An error is
// the reason why it may not leave.
func (g *Gateway) LookupOutbound(f *Flow) (*ipsec.SA, ipsec.Error) {
	r := g.lookup()
	n, v := r.out.Lookup(f)
	return r.outboundSA(n, v)
}

// TunnelLimit returns an exclusive upper bound of the numbers of tunnels of the active policies.
func (g *Gateway) TunnelLimit() uint32 { return uint32(len(g.lookup().current) * pageSize) }

// Current returns the current outbound SA of a tunnel of the active policies, nil without one.
func (g *Gateway) Current(tunnel uint32) *ipsec.SA {
	current := g.lookup().current
	if tunnel/pageSize >= uint32(len(current)) {
		return nil
	}
	return current.of(tunnel).Load()
}

// Batch is the largest number of packets per call of CheckInboundBatch and LookupOutboundBatch.
const Batch = 64

// Lookups is a worker's cache of the policies of both directions.
type Lookups struct{ in, out *policy.Cache }

// NewLookups returns empty caches.
func NewLookups() Lookups { return Lookups{policy.NewCache(), policy.NewCache()} }

// CheckInboundBatch is CheckInbound for up to Batch flows, with results in errs. Cache misses overlap.
func (g *Gateway) CheckInboundBatch(l *Lookups, errs []ipsec.Error, flows []Flow, by []*ipsec.SA) {
	var policies [Batch]int32
	var verdicts [Batch]policy.Verdict
	l.in.LookupBatch(g.lookup().in, policies[:], verdicts[:], flows)
	for i := range flows {
		errs[i] = checkInbound(policies[i], verdicts[i], by[i])
	}
}

// LookupOutboundBatch is LookupOutbound for up to Batch flows. Cache misses overlap.
func (g *Gateway) LookupOutboundBatch(l *Lookups, sas []*ipsec.SA, errs []ipsec.Error, flows []Flow) {
	var policies [Batch]int32
	var verdicts [Batch]policy.Verdict
	r := g.lookup()
	l.out.LookupBatch(r.out, policies[:], verdicts[:], flows)
	for i := range flows {
		sas[i], errs[i] = r.outboundSA(policies[i], verdicts[i])
	}
}

// lookup returns the current policies.
func (g *Gateway) lookup() *Ruleset {
	if r := g.rules.Load(); r != nil {
		return r
	}
	return &none
}

// checkInbound is CheckInbound with the result of the inbound policies.
func checkInbound(n int32, v policy.Verdict, by *ipsec.SA) ipsec.Error {
	switch {
	case n == policy.None && by == nil:
		return ipsec.OK
	case n == policy.None:
		return ipsec.InNoPols
	case v.Action() == policy.Discard:
		return ipsec.InPolBlock
	case v.Action() == policy.Refuse:
		return ipsec.PolicyRefused
	case v.Action() == policy.Bypass && by == nil:
		return ipsec.OK
	case v.Action() == policy.Protect && by != nil && by.Tunnel() == v.Target():
		return ipsec.OK
	}
	return ipsec.InTmplMismatch
}

// outboundSA is LookupOutbound with the result of the outbound policies.
func (r *Ruleset) outboundSA(n int32, v policy.Verdict) (*ipsec.SA, ipsec.Error) {
	switch {
	case n == policy.None || v.Action() == policy.Bypass:
		return nil, ipsec.OK
	case v.Action() == policy.Discard:
		return nil, ipsec.OutPolBlock
	case v.Action() == policy.Refuse:
		return nil, ipsec.PolicyRefused
	}
	if s := r.current.of(v.Target()).Load(); s != nil {
		return s, ipsec.OK
	}
	r.miss(v.Target())
	return nil, ipsec.OutNoStates
}

// none is the Ruleset of a gateway without policies.
var none = func() Ruleset {
	t, err := policy.Build(nil)
	if err != nil {
		panic(err) // an empty list cannot be too long
	}
	return Ruleset{in: t, out: t}
}()
