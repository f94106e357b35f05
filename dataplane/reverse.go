package dataplane

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// ReversePath says from which sources a port takes packets (RFC 3704, RFC 1812 5.3.8).
type ReversePath uint8

const (
	AnySource    ReversePath = iota
	LooseSource              // those that a route leads to
	StrictSource             // those that a route leads to by the port
)

// Sources says it for both families.
type Sources struct{ IPv4, IPv6 ReversePath }

// SetSources says from which sources a port takes packets, at first any. It returns when all
// workers know.
func (r *Router) SetSources(port int, s Sources) {
	r.each(func(w *worker) { w.sources[port] = s })
}

// verifyBlock is how many sources are looked up together.
const verifyBlock = 64

// verification has the sources of a block by family, with the places of their frames.
type verification struct {
	v4 struct {
		n    int
		at   [verifyBlock]int
		src  [verifyBlock]uint32
		hops [verifyBlock]fib.ID
	}
	v6 struct {
		n    int
		at   [verifyBlock]int
		src  [verifyBlock][16]byte
		hops [verifyBlock]fib.ID
	}
}

// verify marks the frames of a burst, all of one port, that come from where they should
// not. It is done before an engine sees them, by the worker, so that it is the same with all
// engines, and costs nothing where no port asks for it. What is no whole IP header is left
// to the engine to refuse.
func (w *worker) verify(frames []batch.Frame, s Sources) {
	if w.inFlight.n == 0 { // until the chunk is submitted, nobody else keeps numbers of the base from being used again
		w.reader.Hold(w.reader.Now())
	}
	for len(frames) > 0 {
		n := min(len(frames), verifyBlock)
		w.verifyBlock(frames[:n], s)
		frames = frames[n:]
	}
}

func (w *worker) verifyBlock(frames []batch.Frame, s Sources) {
	const src4, src6 = packet.EthernetLen + 12, packet.EthernetLen + 8
	v4, v6 := &w.verification.v4, &w.verification.v6
	v4.n, v6.n = 0, 0
	for i, f := range frames {
		b := w.bytes(f)
		if len(b) < packet.EthernetLen+packet.IPv4Len {
			continue
		}
		switch (*packet.Ethernet)(b).Type() {
		case packet.EtherTypeIPv4:
			if s.IPv4 != AnySource {
				v4.at[v4.n], v4.src[v4.n] = i, binary.BigEndian.Uint32(b[src4:])
				v4.n++
			}
		case packet.EtherTypeIPv6:
			if s.IPv6 != AnySource && len(b) >= packet.EthernetLen+packet.IPv6Len {
				v6.at[v6.n], v6.src[v6.n] = i, [16]byte(b[src6:])
				v6.n++
			}
		}
	}
	w.fib.IPv4.LookupBatch(v4.hops[:], v4.src[:v4.n])
	w.fib.IPv6.LookupBatch(v6.hops[:], v6.src[:v6.n])
	for j := range v4.n {
		w.judge(&frames[v4.at[j]], v4.hops[j], s.IPv4)
	}
	for j := range v6.n {
		w.judge(&frames[v6.at[j]], v6.hops[j], s.IPv6)
	}
}

// judge marks a frame unless the next hop to its source will do.
func (w *worker) judge(f *batch.Frame, id fib.ID, p ReversePath) {
	hop := w.fib.NextHop(id)
	switch hop.Kind() {
	case fib.KindForward:
		if p == LooseSource || w.fib.LeadsBy(hop, f.Port) {
			return
		}
	case fib.KindNoPort: // by an interface of Linux's
		if p == LooseSource {
			return
		}
	}
	f.Port |= batch.Spoofed
}
