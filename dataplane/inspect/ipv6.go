package inspect

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// IPv6 validates an IPv6 packet by RFC 8200 and RFC 4291, and stores the place of its transport
// header in l4. p extends to the end of the frame, L2 padding included.
func IPv6(p []byte, l4 *packet.L4) batch.Reason {
	if len(p) < packet.IPv6Len {
		return batch.TooShort
	}
	h := (*packet.IPv6)(p)
	size := packet.IPv6Len + h.PayloadLen()
	switch {
	case h.Version() != 6:
		return batch.IPVersion
	case size > len(p):
		return batch.BadLength
	case h.PayloadLen() == 0 && h.NextHeader() == packet.HopByHop: // jumbogram, RFC 2675: longer than any frame
		return batch.BadLength
	case martianIPv6(h[8:24]):
		return batch.SourceMartian
	case martianIPv6(h[24:40]):
		return batch.DestMartian
	case h.HopLimit() <= 1:
		return batch.TTLExpired
	}
	*l4 = packet.L4{Proto: h.NextHeader(), Offset: packet.IPv6Len}
	if h.NextHeader().IsExtension() {
		var whole bool
		if *l4, whole = packet.FindL4(p[:size]); !whole {
			return batch.ExtensionHeaders
		}
		if l4.Routing0 {
			return batch.RoutingHeader
		}
	}
	return OK
}

// martianIPv6 reports whether an address is never forwarded from or to: unspecified, loopback,
// IPv4-mapped, link-local and multicast (RFC 4291 sections 2.5 and 2.7, RFC 4942 section 2.2; Linux
// routes multicast).
func martianIPv6(addr []byte) bool {
	switch addr[0] {
	case 0xff:
		return true
	case 0xfe:
		return addr[1]&0xc0 == 0x80
	case 0:
		return [10]byte(addr) == [10]byte{} &&
			(addr[10] == 0xff && addr[11] == 0xff || [5]byte(addr[10:]) == [5]byte{} && addr[15] <= 1)
	}
	return false
}
