package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
	"github.com/warproute/warproute/umem"
)

// Datagrams is what an engine of a gateway does beside Submit: it decides on an IP packet that
// was reassembled and that no frame holds. It returns the frame, as whose the packet is to be
// handled, the result, and the packet as it is now, which is valid until the next call. A result
// to forward, or to wait for a neighbour, says that the packet would fit its port.
type Datagrams interface {
	Datagram(p []byte, port uint16) (f batch.Frame, r batch.Result, now []byte)
}

// roomOfESP is what ESP adds behind a packet at most, in bytes: padding, trailer, ICV.
const roomOfESP = 64

// isESPFragment reports whether a packet, which is for this host, is a fragment of ESP, or
// of UDP: of that, only what has ESP is let through to the worker.
func isESPFragment(p []byte) bool {
	const esp = 50
	var proto packet.Protocol
	switch {
	case len(p) >= packet.IPv4Len && p[0]>>4 == 4 && (*packet.IPv4)(p).Fragmented():
		proto = (*packet.IPv4)(p).Protocol()
	case len(p) > packet.IPv6Len && p[0]>>4 == 6 && (*packet.IPv6)(p).NextHeader() == packet.Fragment:
		proto = packet.Protocol(p[packet.IPv6Len])
	default:
		return false
	}
	return proto == esp || proto == packet.UDP
}

// collect takes in a fragment that the engine wants reassembled. The last fragment's frame
// stands for the packet that is whole by it.
func (w *worker) collect(f batch.Frame, p []byte, expected bool, now time.Duration) {
	if w.errands.reassembler == nil {
		w.errands.reassembler = fragment.NewReassembler(fragment.DefaultLimits)
	}
	origin := fragment.Origin{Expected: expected}
	if f.Port&(batch.Own|batch.Cleared) != 0 { // from the host or out of a tunnel: not to be mixed with others' fragments
		origin.Domain = 1
	}
	before := w.errands.reassembler.Lost()
	whole, err := w.errands.reassembler.AddFrom(now, p, origin)
	w.missFragments(before, f.Ingress())
	switch {
	case err != nil:
		w.drop(f, batch.FragmentOverlap)
	case whole == nil:
		w.stats.merged.Add(1)
		w.pool.Put(f.Addr)
	default:
		f.Port &^= batch.Secured
		if whole[0]>>4 == 6 { // of IPv4, no DF says that it may be fragmented again
			f.Port |= batch.Merged
		}
		w.reassembled(f, whole, now)
	}
}

// reassembled has the engine decide on a packet that is whole now: in a frame, in front of the
// next chunk, or at once where no frame holds it.
func (w *worker) reassembled(f batch.Frame, whole []byte, now time.Duration) {
	switch {
	case len(whole)+roomOfESP <= w.largest:
		w.requeue(f, whole, len(whole)+roomOfESP)
	case w.datagrams == nil:
		w.drop(f, batch.XfrmInBufferError)
	default:
		in, r, p := w.datagrams.Datagram(whole, f.Port)
		f.Port = in.Port
		w.settle(f, p, r, now)
	}
}

// settle does what an engine decided about a packet outside frames, for which f stands.
func (w *worker) settle(f batch.Frame, p []byte, r batch.Result, now time.Duration) {
	if r.Verdict.Action() == batch.ActionDrop {
		w.refusePacket(f, p, r, now)
		return
	}
	if r.Verdict.Action() == batch.ActionForward { // it is to be routed again, from a frame
		returnHop(p)
	}
	if len(p) <= w.largest {
		w.requeue(f, p, len(p))
		return
	}
	r = batch.Result{Verdict: batch.Drop(batch.MTUExceeded), Len: uint16(w.largest)}
	if f.Port&(batch.Secured|batch.Cleared) == batch.Secured { // it is ESP of this router
		r.Addr = batch.MayCut
	}
	w.refusePacket(f, p, r, now)
}

// requeue queues a packet, for which f stands, in a frame with room for size bytes.
func (w *worker) requeue(f batch.Frame, p []byte, size int) {
	if !w.errands.room(w, 1, size) {
		w.drop(f, batch.XfrmInBufferError)
		return
	}
	to, room := w.frame(size)
	to.Port = f.Port
	w.queue(to, copy(room, p))
	w.pool.Put(f.Addr)
}

// expire gives up fragments that have waited too long for others of their packets.
func (w *worker) expire(now time.Duration) {
	r := w.errands.reassembler
	if r == nil {
		return
	}
	before := r.Lost()
	r.Expire(now)
	w.missFragments(before, w.errands.collected)
	w.drops.flush(w.counters)
}

// missFragments counts as dropped, and as merged no more, the fragments that the reassembler
// has lost since it had lost so many. It does not know their ports: the latest fragment's
// will do.
func (w *worker) missFragments(before uint64, port uint16) {
	n := w.errands.reassembler.Lost() - before
	for range n {
		w.drops.add(port, batch.FragmentsMissing)
	}
	w.stats.merged.Add(-int64(n))
	w.errands.collected = port
}

// largestPacket is how long a packet may be that the worker's frames hold, in bytes.
func largestPacket(m *umem.Memory) int {
	if m.Large() > 0 {
		return umem.MaxLargeMTU
	}
	return umem.MaxMTU
}
