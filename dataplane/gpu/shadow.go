package gpu

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
)

// shadow has the CPU repeat one in so many chunks of the GPU, on copies of their frames, and
// compares results and bytes. It finds wrong results that look right, which checker cannot.
// A GPU whose result differs is out of use, and the packets of that chunk are dropped as
// gpu_bad_result.
//
// The two can only be compared while their tables are the same: when the device has every
// change at the beginning, and no change is made until the end. Other chunks are skipped.
type shadow struct {
	every   int // chunks, of which one is repeated
	left    int // chunks until the next one
	cpu     *cpu.Engine
	checker *checker
	patcher *patcher // nil: the tables never change

	// A copy of the chunk: descriptors and frames as the device has them at first, and as the
	// CPU leaves them. A frame without a length is not compared.
	chunk      *batch.Chunk // nil: none is being compared
	patches    uint64       // changes of the tables before it
	frames, in []batch.Frame
	kept, mem  []byte
	room       []cpu.Task
	tasks      []cpu.Task // in room; none if the chunk has none
	out        []batch.Result

	same, different, skipped atomic.Uint64 // chunks
}

// newShadow returns the shadow of an engine with chunks of up to size packets, nil if every is 0.
func newShadow(e *Engine, size, every int, p *patcher) *shadow {
	if every == 0 {
		return nil
	}
	s := &shadow{
		every: every, left: every, checker: &e.checker, patcher: p, frames: make([]batch.Frame, size), in: make([]batch.Frame, size),
		kept: make([]byte, size*copyBytes), mem: make([]byte, size*copyBytes), room: make([]cpu.Task, size), out: make([]batch.Result, size),
	}
	clear(s.kept) // so that no worker waits for pages
	clear(s.mem)
	s.cpu = e.cpu.Repeater(s.mem)
	return s
}

// Bytes from one copy of a frame to the next, and where in these it begins.
const copyBytes, copyAt = 2048, 2

// place returns where the copy of frame i is. Its IP header is aligned to 16 bytes.
func place(i int) uint32 { return uint32(i)*copyBytes + copyAt }

// keep copies a chunk that the device is about to receive, if it is to be repeated.
func (s *shadow) keep(c *batch.Chunk, tasks []cpu.Task) {
	if s == nil {
		return
	}
	if s.left--; s.left > 0 {
		return
	}
	s.left = s.every
	made, added := s.patcher.changes()
	if s.chunk != nil || made != added {
		s.skipped.Add(1)
		return
	}
	s.chunk, s.patches = c, added
	s.tasks = s.room[:copy(s.room, tasks)]
	for i, f := range c.In[:c.N] {
		if f.Len > copyBytes-copyAt && len(tasks) > 0 {
			s.tasks[i].Kind = cpu.Settled
		}
		if f.Len > copyBytes-copyAt || len(tasks) > 0 && tasks[i].Kind == cpu.Settled {
			f.Len = 0
		}
		s.frames[i] = batch.Frame{Addr: place(i), Len: f.Len, Port: f.Port}
		copy(s.kept[place(i):], s.checker.umem[f.Addr:uint64(f.Addr)+uint64(f.Len)])
	}
}

// forget gives up a chunk that the device did not finish.
func (s *shadow) forget(c *batch.Chunk) {
	if s != nil && s.chunk == c {
		s.chunk = nil
		s.skipped.Add(1)
	}
}

// retries are the waits before the CPU repeats a chunk. The second and third time are for
// changes that reached one of the tables, and not yet the queue of the other one's.
var retries = [...]time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// compare repeats a chunk that the device has finished, if there is a copy of it. The host has
// not had the last word on its tasks.
func (s *shadow) compare(c *batch.Chunk, tasks []cpu.Task) {
	if s == nil || s.chunk != c {
		return
	}
	s.chunk = nil
	differs := 0
	for _, wait := range retries {
		time.Sleep(wait)
		if !s.checker.health.ok() {
			s.skipped.Add(1)
			return
		}
		if differs = s.repeat(c); differs < 0 {
			s.same.Add(1)
			return
		}
		if _, added := s.patcher.changes(); added != s.patches {
			s.skipped.Add(1)
			return
		}
	}
	s.different.Add(1)
	s.checker.health.fail(&distrust{CauseMismatch, s.describe(c, differs)})
	for i := range c.Out[:c.N] {
		if len(tasks) > 0 {
			if tasks[i].Kind == cpu.Settled {
				continue // the device had nothing to do with it
			}
			tasks[i].Kind = cpu.Settled
		}
		c.Out[i] = batch.Result{Verdict: batch.Drop(batch.GPUBadResult)}
	}
}

// repeat has the CPU do the device's part of a chunk. It returns the index of the first packet
// whose result or bytes differ, -1 if none does.
func (s *shadow) repeat(c *batch.Chunk) int {
	for i := range s.tasks {
		if t := &s.tasks[i]; t.Kind != cpu.Plain && t.Kind != cpu.Settled && t.SA.Killed() {
			t.Kind, s.frames[i].Len = cpu.Settled, 0 // the device may have lost the key meanwhile
		}
	}
	for i, f := range s.frames[:c.N] {
		s.in[i] = f
		copy(s.mem[f.Addr:], s.kept[f.Addr:f.Addr+uint32(f.Len)])
	}
	s.cpu.Repeat(s.in[:c.N], s.out[:c.N], s.tasks)
	for i := range c.N {
		if s.frames[i].Len > 0 && (c.Out[i] != s.want(c, i) || s.firstDifference(c, i) >= 0) {
			return i
		}
	}
	return -1
}

// want returns the CPU's result for packet i, with the address in the worker's memory.
func (s *shadow) want(c *batch.Chunk, i int) batch.Result {
	r := s.out[i]
	if r.Verdict.Action() == batch.ActionForward {
		r.Addr += c.In[i].Addr - place(i)
	}
	return r
}

// firstDifference returns the offset of the first byte of packet i that differs, -1 if none
// does. Of packets that cannot be opened, nobody uses the bytes.
func (s *shadow) firstDifference(c *batch.Chunk, i int) int {
	if v := s.out[i].Verdict; v.Action() == batch.ActionDrop && v.Reason() >= batch.XfrmInHdrError {
		return -1
	}
	f := s.in[i]
	want := s.mem[f.Addr:][:f.Len]
	got := s.checker.umem[f.Addr-place(i)+c.In[i].Addr:][:f.Len]
	if bytes.Equal(got, want) {
		return -1
	}
	at := 0
	for got[at] == want[at] {
		at++
	}
	return at
}

// describe says how packet i differs; it has nothing of its content.
func (s *shadow) describe(c *batch.Chunk, i int) string {
	got, want := c.Out[i], s.want(c, i)
	where := "the results differ"
	if got == want {
		where = fmt.Sprintf("they differ from byte %d of %d on", s.firstDifference(c, i), s.in[i].Len)
	}
	return fmt.Sprintf("the CPU repeated a chunk and came to another result: packet %d of %d, from port %d, %d bytes: GPU %v, %d bytes; CPU %v, %d bytes; %s",
		i, c.N, c.In[i].Ingress(), s.frames[i].Len, got.Verdict, got.Len, want.Verdict, want.Len, where)
}
