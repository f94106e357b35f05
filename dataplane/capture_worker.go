package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// captureRings are a worker's rings of all captures. The worker loads them once per iteration; without
// a capture, they cost this load and one branch per burst.
type captureRings []*captureRing

// bytes returns the bytes of a frame.
func (w *worker) bytes(f batch.Frame) []byte { return w.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)] }

// captureReceived captures packets that a queue has received. They are in a chunk from index first on, or
// in no chunk yet (nil).
func (w *worker) captureReceived(frames []batch.Frame, at time.Duration, queue int, c *batch.Chunk, first int) {
	for _, r := range *w.capture {
		for i, f := range frames {
			b := w.bytes(f)
			if r.wants(Received, f.Origin.Port(), b) {
				r.copy(Received, at, f.Origin.Port(), f, b)
			}
			if r.wants(Decided, f.Origin.Port(), b) {
				r.traces.add(r, f, at, queue, b, c, first+i)
			}
		}
		r.publish()
	}
}

// assignTraces records the chunk of traced packets that were in none.
func (w *worker) assignTraces(c *batch.Chunk) {
	for _, r := range *w.capture {
		r.traces.assign(c)
	}
}

// captureSent captures the first frames of a list, which are in a transmit ring. Nothing writes to them
// before reclaim. Frames of VLANs are captured as those of their logical ports, without tags.
func (w *worker) captureSent(e *egress, sent int) {
	now := batch.Clock()
	for _, r := range *w.capture {
		for i, f := range e.frames[:sent] {
			b, port := w.bytes(f), e.ports[i]
			if int(port) >= len(w.tx) {
				b = w.untagged(b, w.logical.tagBytes(port))
			}
			if r.wants(Sent, port, b) {
				r.copy(Sent, now, port, f, b)
			}
		}
		r.publish()
	}
}

// captureDropped captures a frame that is counted as dropped.
func (w *worker) captureDropped(f batch.Frame, reason batch.Reason) {
	b, tags := w.bytes(f), 0
	if reason == batch.PortDown || reason == batch.TxFull { // after the engine or the worker has added tags
		if tags = tagBytesOf(b); tags > 0 {
			b = w.untagged(b, tags)
		}
	}
	for _, r := range *w.capture {
		if r.capture.Reasons[reason] && r.wants(Dropped, f.Origin.Port(), b) {
			if rec := r.copy(Dropped, batch.Clock(), f.Origin.Port(), f, b); rec != nil {
				rec.Reason = reason
				if rec.Inside = f.Origin.Has(batch.PolicyDone) && (f.Addr+uint32(tags))%umem.FrameSize != umem.DataOffset; rec.Inside {
					clear(rec.Data[:min(len(rec.Data), packet.EthernetLen-2)])
				}
			}
			r.publish()
		}
		r.traces.dropped(f, reason)
	}
}

// captureDecided adds the engine's results for a chunk to the traces of its packets.
func (w *worker) captureDecided(c *batch.Chunk) {
	for _, r := range *w.capture {
		r.traces.decided(w, c)
	}
}

// writeTraces writes the traces of a chunk's packets.
func (w *worker) writeTraces(c *batch.Chunk) {
	for _, r := range *w.capture {
		r.traces.write(r, c)
	}
}
