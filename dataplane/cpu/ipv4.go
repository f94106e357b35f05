package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
)

// ok stands for "no reason to drop"; no validation ends in Unprocessed.
const ok = batch.Unprocessed

// validateIPv4 checks an IPv4 packet by RFC 1812 5.2.2 and 5.3. p runs to the
// end of the frame, L2 padding included.
func validateIPv4(p []byte) batch.Reason {
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
	return ok
}

// martianIPv4 reports whether no router forwards from or to addr: 0/8, 127/8,
// multicast and 240/4 (RFC 1812 5.3.7; multicast routing is Linux's), and the
// link-local 169.254/16 (RFC 3927 7).
func martianIPv4(addr uint32) bool {
	first := addr >> 24
	return first-1 >= 223 || first == 127 || addr>>16 == 0xa9fe
}

// forwardIPv4 decides on a valid packet whose lookup answered id.
func (e *Engine) forwardIPv4(f batch.Frame, id lookup.NextHop) batch.Result {
	hop := fib.NextHop(atomic.LoadUint64(&e.words.NextHops[id]))
	if hop.Kind() != fib.KindForward {
		return batch.Result{Verdict: batch.Drop(reasons[hop.Kind()])}
	}
	b := e.frame(f)
	h := (*packet.IPv4)(b[packet.EthernetLen:])
	size := h.TotalLen()
	p := b[packet.EthernetLen : packet.EthernetLen+size]
	adjacency := hop.Index()
	if hop.Group() {
		adjacency = e.bucket(adjacency, packet.FlowHashIPv4(p, e.fib.Seed))
	}
	r, dst, src := e.egress(hop, adjacency, size)
	if r.Verdict.Action() != batch.ActionForward {
		return r
	}
	if e.repair[f.Ingress()] {
		packet.CompleteIPv4(p)
	}
	h.DecrementTTL()
	(*packet.Ethernet)(b).SetMACs(uint64(dst), uint64(src))
	return batch.Result{Addr: f.Addr, Len: uint16(packet.EthernetLen + size), Verdict: r.Verdict}
}
