package inspect

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// IPv4 validates an IPv4 packet by RFC 1812 sections 5.2.2 and 5.3. p extends to the end of the
// frame, L2 padding included.
func IPv4(p []byte) batch.Reason {
	if len(p) < packet.IPv4Len {
		return batch.TooShort
	}
	h := (*packet.IPv4)(p)
	switch {
	case h.Version() != 4:
		return batch.IPVersion
	case h.HeaderLen() != packet.IPv4Len:
		if h.HeaderLen() > packet.IPv4Len && h.HeaderLen() <= h.TotalLen() {
			return batch.IPOptions
		}
		return batch.HeaderLength
	case h.TotalLen() < packet.IPv4Len || h.TotalLen() > len(p):
		return batch.BadLength
	case !h.ChecksumOK():
		return batch.BadChecksum
	case martianIPv4(h.Src()):
		return batch.SourceMartian
	case martianIPv4(h.Dst()):
		return batch.DestMartian
	case h.FragmentOffset() == 1 && h.Protocol() == packet.TCP:
		return batch.FragmentOverlap
	case h.TTL() <= 1:
		return batch.TTLExpired
	}
	return OK
}

// martianIPv4 reports whether an address is never forwarded from or to: 0/8, 127/8, multicast
// and 240/4 (RFC 1812 section 5.3.7; Linux routes multicast), and link-local 169.254/16 (RFC 3927
// section 7).
func martianIPv4(addr uint32) bool {
	first := addr >> 24
	return first-1 >= 223 || first == 127 || addr>>16 == 0xa9fe
}
