package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// forwardIPv6 decides on a valid packet whose next hop is id.
func (e *Engine) forwardIPv6(f batch.Frame, id lookup.NextHopID, l4 *packet.L4) batch.Result {
	hop := fib.NextHop(atomic.LoadUint64(&e.words.NextHops[id]))
	if hop.Kind() != fib.KindForward {
		return batch.DropFor(reasons[hop.Kind()])
	}
	b := e.frames.Bytes(f)
	h := (*packet.IPv6)(b[packet.EthernetLen:])
	size := packet.IPv6Len + h.PayloadLen()
	p := b[packet.EthernetLen : packet.EthernetLen+size]
	adjacency := hop.Index()
	if hop.Group() {
		adjacency = e.bucket(adjacency, packet.FlowHashIPv6(p, *l4, e.fib.Seed))
	}
	r, adj, port := e.egress(hop, adjacency, size)
	tag := uint32(0)
	if adj.Tagged() {
		if tag = e.tags.Of(adj.Port()); tag != 0 && f.Addr%umem.FrameSize < tagRoom {
			return batch.MakeResult(adjacency, 0, batch.Drop(batch.PortDown))
		}
	}
	if r.Verdict.Action() != batch.ActionForward {
		return r
	}
	if e.partialChecksums[f.Origin.Port()] && !l4.Fragment {
		packet.CompleteIPv6(p, l4.Proto, l4.Offset)
	}
	h.DecrementHopLimit()
	if tag != 0 {
		writeTagged(b, adj.MAC(), port.MAC(), tag)
		return batch.MakeResult(f.Addr-fib.TagLen, uint16(packet.EthernetLen+fib.TagLen+size), r.Verdict)
	}
	(*packet.Ethernet)(b).SetMACs(uint64(adj.MAC()), uint64(port.MAC()))
	return batch.MakeResult(f.Addr, uint16(packet.EthernetLen+size), r.Verdict)
}
