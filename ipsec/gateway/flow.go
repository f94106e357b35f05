package gateway

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Flow is what policies select packets by.
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

// ReadIPv4 does what FlowIPv4 does where f lies.
func ReadIPv4(f *Flow, p []byte) {
	h := (*packet.IPv4)(p)
	src, dst := ports(h.Protocol(), p[packet.IPv4Len:h.TotalLen()], h.Fragmented())
	f.SetIPv4(h.Src(), h.Dst(), uint8(h.Protocol()), src, dst)
}

// ReadIPv6 does what FlowIPv6 does where f lies.
func ReadIPv6(f *Flow, p []byte, l4 packet.L4) {
	proto := l4.Proto
	if l4.Later && proto.IsExtension() { // the first fragment has what it leads to
		proto = policy.HiddenProtocol
	}
	src, dst := ports(proto, p[l4.Offset:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()], l4.Fragment)
	f.SetIPv6((*[16]byte)(p[8:24]), (*[16]byte)(p[24:40]), uint8(proto), src, dst)
}

// ports reads the ports, or what counts as such. Of no fragment, not even the first:
// all of a packet go the same way.
func ports(proto packet.Protocol, l4 []byte, fragment bool) (src, dst uint32) {
	const icmp, icmpv6, mobility, dccp, sctp, udplite = 1, 58, 135, 33, 132, 136
	if (proto == packet.UDP || proto == packet.TCP) && !fragment && len(l4) >= 4 { // as nearly all
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

// Inbound returns the association that a packet to dst with this SPI is for, or nil.
func (g *Gateway) Inbound(spi uint32, dst netip.Addr) *ipsec.SA { return g.sad.Lookup(spi, dst) }

// MayEnter tells whether a packet that arrived by an association, or in clear if that is
// nil, has come as the inbound policies demand (RFC 4301 section 5.2). What no policy
// is for may come in clear, and not out of a tunnel.
func (g *Gateway) MayEnter(f *Flow, by *ipsec.SA) ipsec.Error {
	n, v := g.lookup().in.Lookup(f)
	return mayEnter(n, v, by)
}

// Protect returns the association that a packet is to leave by, nil if it may leave in
// clear. An error is why it may not leave.
func (g *Gateway) Protect(f *Flow) (*ipsec.SA, ipsec.Error) {
	r := g.lookup()
	n, v := r.out.Lookup(f)
	return r.protect(n, v)
}

// Batch is how many packets MayEnterAll and ProtectAll take at once.
const Batch = 64

// Lookups is what a worker remembers of the policies of both directions.
type Lookups struct{ in, out *policy.Cache }

// NewLookups returns what remembers nothing yet.
func NewLookups() Lookups { return Lookups{policy.NewCache(), policy.NewCache()} }

// MayEnterAll does what MayEnter does for each of up to Batch flows, into errs. Their
// cache misses overlap.
func (g *Gateway) MayEnterAll(l *Lookups, errs []ipsec.Error, flows []Flow, by []*ipsec.SA) {
	var policies [Batch]int32
	var verdicts [Batch]policy.Verdict
	l.in.LookupBatch(g.lookup().in, policies[:], verdicts[:], flows)
	for i := range flows {
		errs[i] = mayEnter(policies[i], verdicts[i], by[i])
	}
}

// ProtectAll is to Protect what MayEnterAll is to MayEnter.
func (g *Gateway) ProtectAll(l *Lookups, sas []*ipsec.SA, errs []ipsec.Error, flows []Flow) {
	var policies [Batch]int32
	var verdicts [Batch]policy.Verdict
	r := g.lookup()
	l.out.LookupBatch(r.out, policies[:], verdicts[:], flows)
	for i := range flows {
		sas[i], errs[i] = r.protect(policies[i], verdicts[i])
	}
}

// lookup returns the rules of now.
func (g *Gateway) lookup() *Ruleset {
	if r := g.rules.Load(); r != nil {
		return r
	}
	return &none
}

// mayEnter is MayEnter by what the inbound policies say.
func mayEnter(n int32, v policy.Verdict, by *ipsec.SA) ipsec.Error {
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
	case v.Action() == policy.Protect && by != nil && by.Bundle() == v.Target():
		return ipsec.OK
	}
	return ipsec.InTmplMismatch
}

// protect is Protect by what the outbound policies say.
func (r *Ruleset) protect(n int32, v policy.Verdict) (*ipsec.SA, ipsec.Error) {
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

// none are the rules of a gateway that was given none.
var none = func() Ruleset {
	t, err := policy.Build(nil)
	if err != nil {
		panic(err) // no policies are always few enough
	}
	return Ruleset{in: t, out: t}
}()
