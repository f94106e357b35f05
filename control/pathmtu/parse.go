package pathmtu

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

const (
	espLen   = 8 // length of SPI and sequence number, in bytes
	udpLen   = 8 // in bytes
	protoESP = 50
)

// icmpError is an ICMP error of either family. Linux has verified its checksum.
type icmpError struct {
	kind, code byte
	mtu        uint32 // bytes
	quote      []byte // of the packet that caused it, from its IP header on
}

// Offsets in struct sock_extended_err, which a struct sockaddr of the sender follows, in bytes.
const (
	extOrigin, extType, extCode, extInfo, extLen = 4, 5, 6, 8, 16
	addrIPv4, addrIPv6                           = 4, 8 // of the address in struct sockaddr_in and sockaddr_in6
)

// decodeExtended decodes a struct sock_extended_err of an ICMP error, without the quote.
func decodeExtended(b []byte) (e icmpError, from netip.Addr, ok bool) {
	if len(b) < extLen {
		return e, from, false
	}
	e = icmpError{kind: b[extType], code: b[extCode], mtu: binary.NativeEndian.Uint32(b[extInfo:])}
	switch sender := b[extLen:]; {
	case b[extOrigin] == unix.SO_EE_ORIGIN_ICMP && len(sender) >= addrIPv4+4:
		return e, netip.AddrFrom4([4]byte(sender[addrIPv4:])), true
	case b[extOrigin] == unix.SO_EE_ORIGIN_ICMP6 && len(sender) >= addrIPv6+16:
		return e, netip.AddrFrom16([16]byte(sender[addrIPv6:])), true
	}
	return e, from, false
}

// parseIPv4 parses a "fragmentation needed" error (RFC 792, RFC 1191 section 4) that quotes ESP.
func parseIPv4(e icmpError) (t gateway.TooBig, ok bool) {
	const unreachable, needed = 3, 4
	quote := e.quote
	if len(quote) < packet.IPv4Len || e.kind != unreachable || e.code != needed || e.mtu >= 1<<16 {
		return t, false
	}
	h := (*packet.IPv4)(quote)
	at := h.HeaderLen()
	if h.Version() != 4 || at < packet.IPv4Len || at > len(quote) || h.FragmentOffset() != 0 {
		return t, false
	}
	t = gateway.TooBig{
		Src: netip.AddrFrom4([4]byte(quote[12:])), Dst: netip.AddrFrom4([4]byte(quote[16:])),
		ID: binary.BigEndian.Uint16(quote[4:]), DF: quote[6]&0x40 != 0,
		Size: h.TotalLen(), MTU: int(e.mtu),
	}
	return t, quoted(&t, h.Protocol(), quote[at:])
}

// parseIPv6 parses a "packet too big" error (RFC 4443 section 3.2) that quotes ESP. A gateway sends
// ESP without extension headers.
func parseIPv6(e icmpError) (t gateway.TooBig, ok bool) {
	const tooBig = 2
	quote := e.quote
	if len(quote) < packet.IPv6Len || e.kind != tooBig || quote[0]>>4 != 6 || e.mtu > 1<<16 {
		return t, false
	}
	h := (*packet.IPv6)(quote)
	t = gateway.TooBig{
		Src: netip.AddrFrom16(h.Src()), Dst: netip.AddrFrom16(h.Dst()),
		Size: packet.IPv6Len + h.PayloadLen(), MTU: int(e.mtu),
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
