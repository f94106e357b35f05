package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
)

// validateIPv6 checks an IPv6 packet by RFC 8200 and 4291, and says in l4 where
// its transport header is. p runs to the end of the frame, L2 padding included.
func validateIPv6(p []byte, l4 *packet.L4) batch.Reason {
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
	return ok
}

// martianIPv6 reports whether no router forwards from or to addr: unspecified,
// loopback, IPv4-mapped, link-local and multicast (RFC 4291 2.5 and 2.7, RFC 4942
// 2.2; multicast routing is Linux's).
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

// forwardIPv6 decides on a valid packet whose lookup answered id.
func (e *Engine) forwardIPv6(f batch.Frame, id lookup.NextHop, l4 *packet.L4) batch.Result {
	hop := fib.NextHop(atomic.LoadUint64(&e.words.NextHops[id]))
	if hop.Kind() != fib.KindForward {
		return batch.Result{Verdict: batch.Drop(reasons[hop.Kind()])}
	}
	b := e.frame(f)
	h := (*packet.IPv6)(b[packet.EthernetLen:])
	size := packet.IPv6Len + h.PayloadLen()
	p := b[packet.EthernetLen : packet.EthernetLen+size]
	adjacency := hop.Index()
	if hop.Group() {
		adjacency = e.bucket(adjacency, packet.FlowHashIPv6(p, *l4, e.fib.Seed))
	}
	r, dst, src := e.egress(hop, adjacency, size)
	if r.Verdict.Action() != batch.ActionForward {
		return r
	}
	if e.repair[f.Ingress()] && !l4.Fragment {
		packet.CompleteIPv6(p, l4.Proto, l4.Offset)
	}
	h.DecrementHopLimit()
	(*packet.Ethernet)(b).SetMACs(uint64(dst), uint64(src))
	return batch.Result{Addr: f.Addr, Len: uint16(packet.EthernetLen + size), Verdict: r.Verdict}
}
