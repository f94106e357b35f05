package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

// ReassembledEngine is implemented by engines of IPsec gateways. ProcessReassembled decides on a
// reassembled IP packet that is too long for a frame. It returns the frame with its origin, the result, and the
// resulting packet, which is valid until the next call. A result to forward or to wait for a neighbor
// means that the packet fits the egress port.
type ReassembledEngine interface {
	ProcessReassembled(p []byte, origin batch.Origin) (f batch.Frame, r batch.Result, now []byte)
}

// espTailroom is the maximum number of bytes that ESP adds behind a packet: padding, trailer, ICV.
const espTailroom = 64

// isESPFragment reports whether a packet for this host is a fragment of ESP or UDP. The only UDP
// fragments that the XDP program passes are ESP in UDP.
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

// reassemble adds a fragment to the reassembler, and resubmits the packet if it is complete. expected
// reports whether the fragment has an SA.
func (w *worker) reassemble(f batch.Frame, p []byte, expected bool, now time.Duration) {
	if w.slow.reassembler == nil {
		w.slow.reassembler = fragment.NewReassembler(fragment.DefaultLimits)
	}
	origin := fragment.Origin{Expected: expected}
	if f.Origin.Has(batch.Own | batch.InboundChecked) { // from the host or a tunnel: keep it apart from outside fragments
		origin.Domain = 1
	}
	before := w.slow.reassembler.Lost()
	whole, err := w.slow.reassembler.AddFrom(now, p, origin)
	w.countLostFragments(before, f.Origin.Port())
	switch {
	case err != nil:
		w.drop(f, batch.FragmentOverlap)
	case whole == nil:
		w.stats.merged.Add(1)
		w.pool.Put(f.Addr)
	default:
		f.Origin = f.Origin.Without(batch.PolicyDone)
		if whole[0]>>4 == 6 { // IPv4 has the DF bit for this
			f.Origin = f.Origin.With(batch.Reassembled)
		}
		w.resubmit(f, whole, now)
	}
}

// resubmit has the engine decide on a reassembled packet: in a frame in the next chunk, or at once if
// it is too long for a frame. f is the frame of the last fragment.
func (w *worker) resubmit(f batch.Frame, whole []byte, now time.Duration) {
	switch {
	case len(whole)+espTailroom <= w.slow.maxLen:
		w.copyAndEnqueue(f, whole, len(whole)+espTailroom)
	case w.slow.engine == nil:
		w.drop(f, batch.XfrmInBufferError)
	default:
		in, r, p := w.slow.engine.ProcessReassembled(whole, f.Origin)
		f.Origin = in.Origin
		w.dispatchPacket(f, p, r, now)
	}
}

// dispatchPacket executes the engine's result for a packet outside the UMEM.
func (w *worker) dispatchPacket(f batch.Frame, p []byte, r batch.Result, now time.Duration) {
	if r.Verdict.Action() == batch.ActionDrop {
		w.handlePacketException(f, p, r, now)
		return
	}
	if r.Verdict.Action() == batch.ActionForward { // it will be routed again, from a frame
		incrementTTL(p)
	}
	if len(p) <= w.slow.maxLen {
		w.copyAndEnqueue(f, p, len(p))
		return
	}
	r = batch.DropTooBig(uint16(w.slow.maxLen))
	if f.Origin.Has(batch.PolicyDone) && !f.Origin.Has(batch.InboundChecked) { // ESP of this router
		r = batch.DropTooBigESP(uint16(w.slow.maxLen))
	}
	w.handlePacketException(f, p, r, now)
}

// copyAndEnqueue copies a packet to a frame of at least size bytes and enqueues it in place of f.
func (w *worker) copyAndEnqueue(f batch.Frame, p []byte, size int) {
	if !w.slow.room(w.pool, 1, size) {
		w.drop(f, batch.XfrmInBufferError)
		return
	}
	to, buffer := w.allocFrame(size)
	to.Origin = f.Origin
	w.enqueue(to, copy(buffer, p))
	w.pool.Put(f.Addr)
}

// expireFragments drops fragments whose reassembly has timed out.
func (w *worker) expireFragments(now time.Duration) {
	r := w.slow.reassembler
	if r == nil {
		return
	}
	before := r.Lost()
	r.Expire(now)
	w.countLostFragments(before, w.slow.fragmentPort)
	w.drops.flush(w.counters)
}

// countLostFragments counts the fragments that the reassembler has lost since before as dropped, and
// no longer as merged. The reassembler does not record ports; the latest fragment's port is used.
func (w *worker) countLostFragments(before uint64, port uint16) {
	n := w.slow.reassembler.Lost() - before
	for range n {
		w.addDrop(port, batch.FragmentsMissing)
	}
	w.stats.merged.Add(-int64(n))
	w.slow.fragmentPort = port
}
