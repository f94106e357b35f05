package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
	"github.com/warproute/warproute/umem"
)

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

// collect puts a fragment to those that wait, and queues what is whole by that.
func (w *worker) collect(f batch.Frame, p []byte, now time.Duration) {
	if w.errands.reassembler == nil {
		w.errands.reassembler = fragment.NewReassembler(fragment.DefaultLimits)
	}
	before := w.errands.reassembler.Lost()
	whole, err := w.errands.reassembler.Add(now, p)
	w.missFragments(before, f.Ingress())
	switch {
	case err != nil:
		w.drop(f, batch.FragmentOverlap)
		return
	case whole == nil:
		w.stats.merged.Add(1)
	case len(whole) > umem.MaxLargeMTU || !w.errands.room(w, 1, len(whole)):
		w.drop(f, batch.XfrmInBufferError)
		return
	default:
		to, room := w.frame(len(whole))
		to.Port = f.Ingress()
		w.queue(to, copy(room, whole))
	}
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
