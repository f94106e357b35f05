package service

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// protocolNames are the protocols that a trace names.
var protocolNames = map[packet.Protocol]string{1: "ICMP", 6: "TCP", 17: "UDP", 50: "ESP", 51: "AH", 58: "ICMPv6", 132: "SCTP"}

// describe returns a short text about a frame.
func describe(frame []byte) string {
	p, ok := ipPacket(frame)
	if !ok {
		if len(frame) < packet.EthernetLen {
			return "a frame without a complete Ethernet header"
		}
		return fmt.Sprintf("a packet with EtherType %#04x and incomplete headers", uint16((*packet.Ethernet)(frame).Type()))
	}
	var src, dst netip.Addr
	var proto packet.Protocol
	at, fragment := packet.IPv4Len, false
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		src, dst, proto, fragment = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20])), h.Protocol(), h.Fragmented()
	} else {
		l4, _ := packet.FindL4(p)
		src, dst = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		proto, at, fragment = l4.Proto, l4.Offset, l4.Fragment
	}
	name, ok := protocolNames[proto]
	if !ok {
		name = fmt.Sprintf("protocol %d", proto)
	}
	if fragment {
		return fmt.Sprintf("fragment of %s %v > %v", name, src, dst)
	}
	switch {
	case (proto == packet.TCP || proto == packet.UDP || proto == 132) && len(p) >= at+4:
		from, to := binary.BigEndian.Uint16(p[at:]), binary.BigEndian.Uint16(p[at+2:])
		return fmt.Sprintf("%s %v > %v", name, netip.AddrPortFrom(src, from), netip.AddrPortFrom(dst, to))
	case (proto == packet.ICMP || proto == packet.ICMPv6) && len(p) >= at+2:
		return fmt.Sprintf("%s type %d code %d %v > %v", name, p[at], p[at+1], src, dst)
	}
	return fmt.Sprintf("%s %v > %v", name, src, dst)
}

// ipsec returns the policies and SAs of a packet, nil in a router without IPsec.
func (x *explainer) ipsec(r *dataplane.Record) (t *status.TraceIPsec) {
	x.withGateway(func(g *gateway.Gateway) {
		t = &status.TraceIPsec{}
		received := uint32(0) // if_id of the XFRM interface that received the packet
		before, wasIP := ipPacket(r.Data)
		after, isIP := ipPacket(r.Decision.After)
		if wasIP {
			if spi, _, ok := ipsec.Inbound(before); ok {
				if s := g.Inbound(spi, ipsec.Destination(before)); s != nil {
					received = g.Interfaces().Receiving(s)
					t.DecryptedBy, t.DecryptedSPI = s.Config().Name, spi
				}
			}
		}
		if isIP && r.Decision.Moved {
			if s := sealedBy(g, after); s != nil {
				t.EncryptedBy, t.EncryptedSPI = s.Config().Name, s.Config().SPI
			}
		}
		// Policies apply to the plaintext: the received or the decrypted packet.
		switch {
		case t.DecryptedBy == "" && wasIP:
			flow := flowOf(before)
			t.Inbound, t.Outbound = ruleText(g, ipsec.In, 0, &flow), ruleText(g, ipsec.Out, x.leavesBy(before), &flow)
		case t.EncryptedBy == "" && isIP && r.Decision.Moved:
			flow := flowOf(after)
			t.Inbound, t.Outbound = ruleText(g, ipsec.In, received, &flow), ruleText(g, ipsec.Out, x.leavesBy(after), &flow)
		}
	})
	return t
}

// leavesBy returns the if_id of the XFRM interface by which a packet leaves, 0 for none.
func (x *explainer) leavesBy(p []byte) uint32 {
	var hop fib.NextHop
	var hash uint32
	if p[0]>>4 == 4 {
		hop, hash = x.fib.NextHop(x.fib.IPv4.Lookup((*packet.IPv4)(p).Dst())), packet.FlowHashIPv4(p, x.fib.Seed)
	} else {
		l4, _ := packet.FindL4(p)
		hop, hash = x.fib.NextHop(x.fib.IPv6.Lookup((*packet.IPv6)(p).Dst())), packet.FlowHashIPv6(p, l4, x.fib.Seed)
	}
	if !hop.OverXFRM() {
		return 0
	}
	return x.fib.IfID(hop, hash)
}

// sealedBy returns the SA that encrypted a packet.
func sealedBy(g *gateway.Gateway, p []byte) (by *ipsec.SA) {
	dst := ipsec.Destination(p)
	for s := range g.All {
		c := s.Config()
		if c.Direction != ipsec.Out || c.Dst != dst {
			continue
		}
		for _, at := range []int{packet.IPv4Len, packet.IPv4Len + 8, packet.IPv6Len, packet.IPv6Len + 8} { // with and without UDP
			if len(p) >= at+4 && binary.BigEndian.Uint32(p[at:]) == c.SPI {
				return s
			}
		}
	}
	return nil
}

func flowOf(p []byte) gateway.Flow {
	if p[0]>>4 == 4 {
		return gateway.FlowIPv4(p)
	}
	l4, _ := packet.FindL4(p)
	return gateway.FlowIPv6(p, l4)
}

// ruleText describes the policy for a flow on the XFRM interface with an if_id, or on none with 0.
func ruleText(g *gateway.Gateway, d ipsec.Direction, ifID uint32, f *gateway.Flow) string {
	rule, n := g.RuleFor(d, ifID, f)
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%d: %v %v", n, &rule.Policy, rule.Action)
	if rule.Name != "" {
		text += " " + rule.Name
	}
	if rule.Refusal != "" {
		text += ": " + rule.Refusal
	}
	return text
}
