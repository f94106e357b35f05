package gpu

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
)

// shadow repeats one in N chunks of the GPU on the CPU, on copies of their frames, and compares results
// and bytes. It detects wrong results that checker accepts. On a difference the GPU is taken out of use,
// and the packets of the chunk are dropped as gpu_bad_result.
//
// It compares only chunks whose tables were the same: no patch was queued when the chunk was posted, nor
// until it was compared. It skips other chunks.
type shadow struct {
	every   int         // one in this many chunks is repeated
	left    int         // chunks until the next one
	cpu     *cpu.Engine // over mem
	esp     *esp.Stage
	checker *checker
	patcher *patcher // nil: constant tables

	// Copies of the chunk's descriptors and frames: as posted (frames, kept), and as the CPU leaves
	// them (in, mem). A frame without a length is not compared.
	chunk      *batch.Chunk // nil: none
	patches    uint64       // queued patches before it
	frames, in []batch.Frame
	kept, mem  []byte
	room       []esp.Job
	jobs       []esp.Job // part of room; empty without jobs
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
		kept: make([]byte, size*copyBytes), mem: make([]byte, size*copyBytes), room: make([]esp.Job, size), out: make([]batch.Result, size),
	}
	clear(s.kept) // make the pages resident
	clear(s.mem)
	s.cpu, s.esp = e.cpu.Over(s.mem), e.esp
	return s
}

// Stride of the copies of frames, and the offset of a frame in its copy.
const copyBytes, copyAt = 2048, 16 + 2

// place returns the address of the copy of frame i. Its IP header is aligned to 16 bytes, and there is room for a VLAN tag.
func place(i int) uint32 { return uint32(i)*copyBytes + copyAt }

// next reports whether the next chunk is one to repeat.
func (s *shadow) next() bool {
	if s == nil {
		return false
	}
	if s.left--; s.left > 0 {
		return false
	}
	s.left = s.every
	return true
}

// keep copies a chunk before it is posted.
func (s *shadow) keep(c *batch.Chunk, jobs []esp.Job) {
	applied, queued := s.patcher.progress()
	if s.chunk != nil || applied != queued {
		s.skipped.Add(1)
		return
	}
	s.chunk, s.patches = c, queued
	s.jobs = s.room[:copy(s.room, jobs)]
	for i, f := range c.In[:c.N] {
		if f.Len > copyBytes-copyAt && len(jobs) > 0 {
			s.jobs[i].Kind = esp.Decided
		}
		if f.Len > copyBytes-copyAt || len(jobs) > 0 && jobs[i].Kind == esp.Decided {
			f.Len = 0
		}
		s.frames[i] = batch.Frame{Addr: place(i), Len: f.Len, Origin: f.Origin}
		copy(s.kept[place(i):], s.checker.umem[f.Addr:uint64(f.Addr)+uint64(f.Len)])
	}
}

// forget drops the copy of an abandoned chunk.
func (s *shadow) forget(c *batch.Chunk) {
	if s != nil && s.chunk == c {
		s.chunk = nil
		s.skipped.Add(1)
	}
}

// retries are the waits before the CPU repeats a chunk; the worker sleeps in them. The second and third
// follow a different result: the host's tables may have changes that are not yet in the patch queue.
var retries = [...]time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// compare repeats a finished chunk if there is a copy of it. It runs before the host's part after the
// device.
func (s *shadow) compare(c *batch.Chunk, jobs []esp.Job) {
	if s == nil || s.chunk != c {
		return
	}
	s.chunk = nil
	differs := 0
	for _, wait := range retries {
		time.Sleep(wait)
		if !s.checker.state.ok() {
			s.skipped.Add(1)
			return
		}
		if differs = s.repeat(c); differs < 0 {
			s.same.Add(1)
			return
		}
		if _, queued := s.patcher.progress(); queued != s.patches {
			s.skipped.Add(1)
			return
		}
	}
	s.different.Add(1)
	s.checker.state.fail(&failure{CauseMismatch, s.describe(c, differs)})
	for i := range c.Out[:c.N] {
		if len(jobs) > 0 {
			if jobs[i].Kind == esp.Decided {
				continue // the device skipped it
			}
			jobs[i].Kind = esp.Decided
		}
		c.Out[i] = batch.DropFor(batch.GPUBadResult)
	}
}

// repeat executes the device's part of a chunk on the CPU. It returns the index of the first packet with
// a different result or different bytes, -1 without one.
func (s *shadow) repeat(c *batch.Chunk) int {
	for i := range s.jobs {
		if job := &s.jobs[i]; job.Kind != esp.Plain && job.Kind != esp.Decided && job.SA.Killed() {
			job.Kind, s.frames[i].Len = esp.Decided, 0 // the device may have lost its key
		}
	}
	for i, f := range s.frames[:c.N] {
		s.in[i] = f
		copy(s.mem[f.Addr:], s.kept[f.Addr:f.Addr+uint32(f.Len)])
	}
	in, out := s.in[:c.N], s.out[:c.N]
	clear(out)
	if len(s.jobs) > 0 {
		s.esp.Repeat(s.mem, in, out, s.jobs)
	}
	s.cpu.Route(in, out)
	for i := range c.N {
		if s.frames[i].Len > 0 && (c.Out[i] != s.want(c, i) || s.firstDifference(c, i) >= 0) {
			return i
		}
	}
	return -1
}

// want returns the CPU's result for packet i, with its address in the worker's memory.
func (s *shadow) want(c *batch.Chunk, i int) batch.Result {
	r := s.out[i]
	if r.Verdict.Action() == batch.ActionForward {
		return batch.ForwardTo(r.Verdict.Port(), r.Addr()+c.In[i].Addr-place(i), r.Len())
	}
	return r
}

// firstDifference returns the offset of the first different byte of packet i and its tag, -1 without one. It does not
// compare packets that could not be decrypted.
func (s *shadow) firstDifference(c *batch.Chunk, i int) int {
	if esp.DroppedESP(s.out[i].Verdict) {
		return -1
	}
	f := s.in[i]
	if r := s.out[i]; r.Verdict.Action() == batch.ActionForward && r.Addr() < f.Addr { // with a tag
		f.Addr, f.Len = r.Addr(), f.Len+uint16(f.Addr-r.Addr())
	}
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

// describe formats the difference of packet i, without its content.
func (s *shadow) describe(c *batch.Chunk, i int) string {
	got, want := c.Out[i], s.want(c, i)
	where := "different results"
	if got == want {
		where = fmt.Sprintf("different bytes from %d of %d on", s.firstDifference(c, i), max(s.in[i].Len, want.Len()))
	}
	return fmt.Sprintf("CPU and GPU results differ: packet %d of %d, from port %d, %d bytes: GPU %v, %d bytes; CPU %v, %d bytes; %s",
		i, c.N, c.In[i].Origin.Port(), s.frames[i].Len, got.Verdict, got.Len(), want.Verdict, want.Len(), where)
}
