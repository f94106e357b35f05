package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// maxTraces is the number of packets that a worker traces at a time.
const maxTraces = 64

// traces are the traced packets of chunks that the engine has.
type traces struct {
	n   int
	all []trace
}

// trace is a traced packet.
type trace struct {
	chunk   *batch.Chunk // nil before the packet is in one
	index   int
	at      time.Duration // of the reception
	frame   batch.Frame   // as received
	len     int
	before  []byte
	decided Decision
}

func (p *traces) init(snap int) {
	p.all = make([]trace, maxTraces)
	for i := range p.all {
		p.all[i].before, p.all[i].decided.After = make([]byte, 0, snap), make([]byte, 0, snap)
	}
}

// add starts the trace of a packet, which is packet i of a chunk or in no chunk yet.
func (p *traces) add(r *captureRing, f batch.Frame, at time.Duration, queue int, b []byte, c *batch.Chunk, i int) {
	if p.n == len(p.all) {
		r.counts[f.Origin.Port()].missed.Add(1)
		return
	}
	t := &p.all[p.n]
	p.n++
	t.chunk, t.index, t.at, t.frame, t.len = c, i, at, f, len(b)
	t.before = append(t.before[:0], b[:min(len(b), cap(t.before))]...)
	t.decided = Decision{Queue: queue, After: t.decided.After[:0]}
}

// assign finds packets without a chunk in a chunk that is about to be submitted.
func (p *traces) assign(c *batch.Chunk) {
	for i := range p.all[:p.n] {
		t := &p.all[i]
		if t.chunk != nil || t.decided.Dropped {
			continue
		}
		for j, f := range c.In[:c.N] {
			if f.Addr == t.frame.Addr {
				t.chunk, t.index = c, j
				break
			}
		}
	}
}

// decided records the results of a chunk before its packets are dispatched.
func (p *traces) decided(w *worker, c *batch.Chunk) {
	for i := range p.all[:p.n] {
		t := &p.all[i]
		if t.chunk != c {
			continue
		}
		d, f, tag := &t.decided, c.In[t.index], 0
		d.Result, d.Packets = c.Out[t.index], c.N
		if d.Result.Verdict.Action() == batch.ActionForward {
			f.Addr, f.Len = d.Result.Addr(), d.Result.Len()
			if w.logical.table.TagsByEngines() {
				tag = int(c.In[t.index].Addr - f.Addr)
			}
			d.Result = batch.ForwardTo(d.Result.Verdict.Port(), f.Addr+uint32(tag), f.Len-uint16(tag))
		}
		d.Moved = f.Addr+uint32(tag) != t.frame.Addr
		if d.Result.Verdict.Action() != batch.ActionLost { // a failed GPU may still write to the frame
			b := w.bytes(f)
			if tag > 0 {
				b = w.untagged(b, tag)
			}
			d.After = append(d.After, b[:min(len(b), cap(d.After))]...)
		}
	}
}

// dropped records that a frame was dropped.
func (p *traces) dropped(f batch.Frame, reason batch.Reason) {
	for i := range p.all[:p.n] {
		if t := &p.all[i]; t.frame.Addr/umem.FrameSize == f.Addr/umem.FrameSize {
			t.decided.Dropped, t.decided.Reason = true, reason
		}
	}
}

// write writes the records of a completed chunk, and those of packets that were dropped before they were in one.
func (p *traces) write(r *captureRing, c *batch.Chunk) {
	kept := 0
	for i := range p.all[:p.n] {
		t := &p.all[i]
		if t.chunk != c && (t.chunk != nil || !t.decided.Dropped) {
			p.all[i], p.all[kept] = p.all[kept], p.all[i]
			kept++
			continue
		}
		rec, room := r.reserve(t.frame.Origin.Port())
		if rec == nil {
			continue
		}
		*rec = Record{
			Point: Decided, Time: t.at, Worker: r.worker, Port: t.frame.Origin.Port(), Ingress: t.frame.Origin.Port(),
			Len: t.len, Data: room[:copy(room[:r.capture.Snap], t.before)], Decision: t.decided,
		}
		after := room[r.capture.Snap:]
		rec.Decision.After = after[:copy(after, t.decided.After)]
		if rec.Decision.Stamps.Received = t.at; t.chunk == c {
			rec.Decision.Stamps = c.Stamps
		}
	}
	p.n = kept
	r.publish()
}
