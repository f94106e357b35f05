package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// tapped are a worker's rings of all taps. It asks for them once a turn: as long as
// nobody looks, that and a branch a burst are all that taps cost.
type tapped []*tapRing

// frame returns the bytes of a frame.
func (w *worker) bytes(f batch.Frame) []byte { return w.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)] }

// tapReceived shows what a queue has put into a chunk, from packet first on.
func (w *worker) tapReceived(c *batch.Chunk, first, n, queue int) {
	for _, r := range *w.tapped {
		for i := first; i < first+n; i++ {
			f := c.In[i]
			b := w.bytes(f)
			if r.wants(Received, f.Port, b) {
				r.copy(Received, c.Received, f.Port, f, b)
			}
			if r.wants(Decided, f.Port, b) {
				r.pending.add(r, c, i, queue, b)
			}
		}
		r.publish()
	}
}

// tapSent shows what a port has taken. Nobody writes to these frames before reclaim has
// put them back into the pool.
func (w *worker) tapSent(port uint16, frames []batch.Frame) {
	now := batch.Clock()
	for _, r := range *w.tapped {
		for _, f := range frames {
			if b := w.bytes(f); r.wants(Sent, port, b) {
				r.copy(Sent, now, port, f, b)
			}
		}
		r.publish()
	}
}

// tapDropped shows a frame that is counted as dropped.
func (w *worker) tapDropped(f batch.Frame, reason batch.Reason) {
	b := w.bytes(f)
	for _, r := range *w.tapped {
		if r.tap.Reasons[reason] && r.wants(Dropped, f.Ingress(), b) {
			if rec := r.copy(Dropped, batch.Clock(), f.Ingress(), f, b); rec != nil {
				rec.Reason = reason
				if rec.Inside = f.Port&batch.Secured != 0 && f.Addr%umem.FrameSize != umem.DataOffset; rec.Inside {
					clear(rec.Data[:min(len(rec.Data), packet.EthernetLen-2)])
				}
			}
			r.publish()
		}
		r.pending.dropped(f, reason)
	}
}

// tapDecided notes what an engine made of the packets that are traced.
func (w *worker) tapDecided(c *batch.Chunk) {
	for _, r := range *w.tapped {
		r.pending.decided(w, c)
	}
}

// tapDone shows them when their chunk is through.
func (w *worker) tapDone(c *batch.Chunk) {
	for _, r := range *w.tapped {
		r.pending.done(r, c)
	}
}

// copy writes a record; nil if there is no room.
func (r *tapRing) copy(p Point, at time.Duration, port uint16, f batch.Frame, b []byte) *Record {
	rec, room := r.record(port)
	if rec == nil {
		return nil
	}
	*rec = Record{
		Point: p, Time: at, Worker: r.worker, Port: port, Ingress: f.Ingress(), Marks: f.Port &^ f.Ingress(),
		Len: len(b), Data: room[:copy(room[:r.tap.Snap], b)],
	}
	return rec
}

// maxPending is how many packets a worker traces at once.
const maxPending = 64

// pending are the packets of a tap's ring whose chunks an engine has.
type pending struct {
	n   int
	all []traced
}

// traced is such a packet, with memory of its own.
type traced struct {
	chunk   *batch.Chunk
	index   int
	frame   batch.Frame // as it was received
	len     int
	before  []byte
	decided Decision
}

func (p *pending) init(snap int) {
	p.all = make([]traced, maxPending)
	for i := range p.all {
		p.all[i].before, p.all[i].decided.After = make([]byte, 0, snap), make([]byte, 0, snap)
	}
}

// add takes up packet i of a chunk.
func (p *pending) add(r *tapRing, c *batch.Chunk, i, queue int, b []byte) {
	if p.n == len(p.all) {
		r.counts[c.In[i].Ingress()].missed.Add(1)
		return
	}
	t := &p.all[p.n]
	p.n++
	t.chunk, t.index, t.frame, t.len = c, i, c.In[i], len(b)
	t.before = append(t.before[:0], b[:min(len(b), cap(t.before))]...)
	t.decided = Decision{Queue: queue, After: t.decided.After[:0]}
}

// decided notes the results of a chunk, before its packets go their ways.
func (p *pending) decided(w *worker, c *batch.Chunk) {
	for i := range p.all[:p.n] {
		t := &p.all[i]
		if t.chunk != c {
			continue
		}
		d, f := &t.decided, c.In[t.index]
		d.Result, d.Packets = c.Out[t.index], c.N
		if d.Result.Verdict.Action() == batch.ActionForward {
			f.Addr, f.Len = d.Result.Addr, d.Result.Len
		}
		d.Moved = f.Addr != t.frame.Addr
		if d.Result.Verdict.Action() != batch.ActionLost { // else it may still be written to
			b := w.bytes(f)
			d.After = append(d.After, b[:min(len(b), cap(d.After))]...)
		}
	}
}

// dropped notes that a frame was given up.
func (p *pending) dropped(f batch.Frame, reason batch.Reason) {
	for i := range p.all[:p.n] {
		if t := &p.all[i]; t.frame.Addr/umem.FrameSize == f.Addr/umem.FrameSize {
			t.decided.Dropped, t.decided.Reason = true, reason
		}
	}
}

// done writes the records of a chunk that is through.
func (p *pending) done(r *tapRing, c *batch.Chunk) {
	kept := 0
	for i := range p.all[:p.n] {
		t := &p.all[i]
		if t.chunk != c {
			p.all[i], p.all[kept] = p.all[kept], p.all[i]
			kept++
			continue
		}
		rec, room := r.record(t.frame.Ingress())
		if rec == nil {
			continue
		}
		*rec = Record{
			Point: Decided, Time: c.Received, Worker: r.worker, Port: t.frame.Ingress(), Ingress: t.frame.Ingress(),
			Len: t.len, Data: room[:copy(room[:r.tap.Snap], t.before)], Decision: t.decided,
		}
		after := room[r.tap.Snap:]
		rec.Decision.After, rec.Decision.Stamps = after[:copy(after, t.decided.After)], c.Stamps
	}
	p.n = kept
	r.publish()
}
