package gateway

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Flow is what policies select packets by.
type Flow struct {
	ipv6         bool
	src4, dst4   uint32
	src6, dst6   [16]byte
	protocol     uint8
	sport, dport uint32
}

// FlowIPv4 returns the flow of a valid packet without options.
func FlowIPv4(p []byte) Flow {
	h := (*packet.IPv4)(p)
	f := Flow{src4: h.Src(), dst4: h.Dst(), protocol: uint8(h.Protocol())}
	f.ports(h.Protocol(), p[packet.IPv4Len:h.TotalLen()], h.Fragmented())
	return f
}

// FlowIPv6 returns the flow of a valid packet whose transport header is at l4.
func FlowIPv6(p []byte, l4 packet.L4) Flow {
	h := (*packet.IPv6)(p)
	f := Flow{ipv6: true, src6: h.Src(), dst6: h.Dst(), protocol: uint8(l4.Proto)}
	f.ports(l4.Proto, p[l4.Offset:packet.IPv6Len+h.PayloadLen()], l4.Fragment)
	return f
}

// ports reads the ports, or what counts as such. Of no fragment, not even the first:
// all of a packet go the same way.
func (f *Flow) ports(proto packet.Protocol, l4 []byte, fragment bool) {
	const icmp, icmpv6, mobility, dccp, sctp, udplite = 1, 58, 135, 33, 132, 136
	f.sport, f.dport = policy.NoPort, policy.NoPort
	if fragment || len(l4) < 4 {
		return
	}
	switch proto {
	case packet.TCP, packet.UDP, dccp, sctp, udplite:
		f.sport, f.dport = uint32(binary.BigEndian.Uint16(l4)), uint32(binary.BigEndian.Uint16(l4[2:]))
	case icmp, icmpv6:
		f.sport, f.dport = uint32(l4[0]), uint32(l4[1])
	case mobility:
		f.sport = uint32(l4[2])
	}
}

func (f *Flow) lookup(t *policy.Table) (int32, policy.Verdict) {
	if f.ipv6 {
		return t.LookupIPv6(&f.src6, &f.dst6, f.protocol, f.sport, f.dport)
	}
	return t.LookupIPv4(f.src4, f.dst4, f.protocol, f.sport, f.dport)
}

// Inbound returns the association that a packet to dst with this SPI is for, or nil.
func (g *Gateway) Inbound(spi uint32, dst netip.Addr) *ipsec.SA { return g.sad.Lookup(spi, dst) }

// MayEnter tells whether a packet that arrived by an association, or in clear if that is
// nil, has come as the inbound policies demand (RFC 4301 section 5.2). What no policy
// is for may come in clear, and not out of a tunnel.
func (g *Gateway) MayEnter(f *Flow, by *ipsec.SA) ipsec.Error {
	r := g.rules.Load()
	if r == nil {
		r = &none
	}
	n, v := f.lookup(r.in)
	switch {
	case n == policy.None && by == nil:
		return ipsec.OK
	case n == policy.None:
		return ipsec.InNoPols
	case v.Action() == policy.Discard:
		return ipsec.InPolBlock
	case v.Action() == policy.Bypass && by == nil:
		return ipsec.OK
	case v.Action() == policy.Protect && by != nil && by.Bundle() == v.Target():
		return ipsec.OK
	}
	return ipsec.InTmplMismatch
}

// Protect returns the association that a packet is to leave by, nil if it may leave in
// clear. An error is why it may not leave.
func (g *Gateway) Protect(f *Flow) (*ipsec.SA, ipsec.Error) {
	r := g.rules.Load()
	if r == nil {
		return nil, ipsec.OK
	}
	n, v := f.lookup(r.out)
	switch {
	case n == policy.None || v.Action() == policy.Bypass:
		return nil, ipsec.OK
	case v.Action() == policy.Discard:
		return nil, ipsec.OutPolBlock
	}
	if s := r.bundles[v.Target()].current.Load(); s != nil {
		return s, ipsec.OK
	}
	return nil, ipsec.OutNoStates
}

// none are the rules of a gateway that was given none.
var none = func() rules {
	t, err := policy.Build(nil)
	if err != nil {
		panic(err) // no policies are always few enough
	}
	return rules{in: t, out: t}
}()
