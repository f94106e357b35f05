package pathmtu

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

const (
	headerLen = 8 // length of the ICMP header before the quoted packet, in bytes
	espLen    = 8 // length of SPI and sequence number, in bytes
	udpLen    = 8 // in bytes
	protoESP  = 50
)

// parseIPv4 parses a "fragmentation needed" error (RFC 792, RFC 1191 section 4) that quotes ESP.
// It verifies the checksum: raw sockets receive ICMP before Linux does.
func parseIPv4(msg []byte) (t gateway.TooBig, ok bool) {
	const unreachable, needed = 3, 4
	if len(msg) < headerLen+packet.IPv4Len || msg[0] != unreachable || msg[1] != needed || packet.Checksum(msg) != 0 {
		return t, false
	}
	quote := msg[headerLen:]
	h := (*packet.IPv4)(quote)
	at := h.HeaderLen()
	if h.Version() != 4 || at < packet.IPv4Len || at > len(quote) || h.FragmentOffset() != 0 {
		return t, false
	}
	t = gateway.TooBig{
		Src: netip.AddrFrom4([4]byte(quote[12:])), Dst: netip.AddrFrom4([4]byte(quote[16:])),
		ID: binary.BigEndian.Uint16(quote[4:]), DF: quote[6]&0x40 != 0,
		Size: h.TotalLen(), MTU: int(binary.BigEndian.Uint16(msg[6:])),
	}
	return t, quoted(&t, h.Protocol(), quote[at:])
}

// parseIPv6 parses a "packet too big" error (RFC 4443 section 3.2) that quotes ESP. A gateway sends
// ESP without extension headers.
func parseIPv6(msg []byte) (t gateway.TooBig, ok bool) {
	const tooBig = 2
	if len(msg) < headerLen+packet.IPv6Len || msg[0] != tooBig {
		return t, false
	}
	quote := msg[headerLen:]
	h := (*packet.IPv6)(quote)
	mtu := binary.BigEndian.Uint32(msg[4:])
	if quote[0]>>4 != 6 || mtu > 1<<16 {
		return t, false
	}
	t = gateway.TooBig{
		Src: netip.AddrFrom16(h.Src()), Dst: netip.AddrFrom16(h.Dst()),
		Size: packet.IPv6Len + h.PayloadLen(), MTU: int(mtu),
	}
	return t, quoted(&t, h.NextHeader(), quote[packet.IPv6Len:])
}

// quoted parses the UDP ports, SPI and sequence number after the quoted IP header.
//
// It returns false for other packets, and for an 8-byte quote (RFC 792) of ESP in UDP, which
// contains neither SPI nor sequence number.
func quoted(t *gateway.TooBig, proto packet.Protocol, p []byte) bool {
	if proto == packet.UDP && len(p) >= udpLen {
		t.Encap = ipsec.Encap{SrcPort: binary.BigEndian.Uint16(p), DstPort: binary.BigEndian.Uint16(p[2:])}
		proto, p = protoESP, p[udpLen:]
	}
	if proto != protoESP || len(p) < espLen {
		return false
	}
	t.SPI, t.Sequence = binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	return true
}
