package gpu

import (
	"math/bits"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// Done reports whether a chunk is done. The caller asks for the oldest chunk of a lane first (lastPassBlocked). On a GPU
// timeout all unfinished chunks on the GPU are lost. It may sleep for a comparison: see retries.
func (e *Engine) Done(c *batch.Chunk) bool {
	i := 0
	for i < len(e.inFlight) && e.inFlight[i].chunk != c {
		i++
	}
	if i == len(e.inFlight) {
		return true
	}
	f := &e.inFlight[i]
	e.advance()
	if f.placement == ExecutedOnGPU && !e.collect(f) {
		switch {
		case !e.state.ok():
			e.abandon()
		case e.waits(f) || e.collect(f): // polls again: the thread may have been descheduled
			if e.chooser != nil {
				f.polled = batch.Clock()
			}
			e.mailbox.wakeBlocks(f.blocks) // in case the controller's thread is preempted in sleepBlocks
			return false
		default:
			e.abandon()
			e.outage.begin(e.timeoutError(f))
		}
	}
	switch f.placement {
	case ExecutedOnGPU:
		e.observeResult(f)
		e.finishChunk(f)
		e.onGPU.Add(-1)
		e.lanes[c.Lane].end(f)
		e.ended[c.Lane].Add(1)
		e.observeDone(f)
		e.setLate(false)
		e.state.progress.finished(f.submitted)
		e.setReceiving(f, false)
	case Abandoned:
		e.setLate(false)
		lose(c)
		e.shadow.forget(c)
	}
	e.executeDeferred(f)
	e.executed[f.placement].Add(1)
	e.ipsec.release(f.jobs)
	e.inFlight = append(e.inFlight[:i], e.inFlight[i+1:]...)
	return true
}

// collectTiles copies the results of the tiles that the device has finished, and releases their slots. Those of
// packets without jobs are checked, and decided on by the CPU engine where tables have changed since (collectRouted); those
// with jobs are checked when all tiles are finished (finishChunk). It reports whether that is so.
func (e *Engine) collectTiles(f *flight) bool {
	for ; f.finished < f.tiles; f.finished++ {
		k := f.finished
		s := &e.mailbox.slots[f.slots[k]]
		if !s.finished() {
			return false
		}
		first, end := f.tileStart(k), f.tileStart(k+1)
		in, out := f.chunk.In[first:end], f.chunk.Out[first:end]
		if f.jobs == nil {
			e.collectRouted(s, in, out)
		} else {
			for i := range out {
				if job := &f.jobs[first+i]; job.Kind != esp.Decided {
					out[i] = acceptResult(in[i], job, s.results[i])
				}
			}
			clear(s.results[:len(out)])
		}
		e.release(f.slots[k : k+1])
	}
	return true
}

// collectRouted copies and checks the results of a tile without jobs. If the tables changed after an inline
// completion, the CPU executes its packets: their frames are unchanged.
func (e *Engine) collectRouted(s *slot, in []batch.Frame, out []batch.Result) {
	s.copyResults(out)
	for rest := s.completed; rest != 0; rest &= rest - 1 {
		first := bits.TrailingZeros32(rest) * batchFrames
		end := min(first+batchFrames, len(in))
		in, out := in[first:end], out[first:end]
		if s.generation(first) == e.queuedGeneration.Load() {
			s.applyCompletions(first, in, out, e.umem, e.cpu.Tags())
		} else {
			e.cpu.Decide(in, out)
		}
	}
	e.checker.check(in, out)
}

// finishChunk does the host's part for a chunk that the device has finished: it compares it with the CPU's
// results (shadow), confirms replay windows and applies inbound policies (ipsecPath.finish). For packets that the device
// has opened or sealed in the first pass, advance has done that; their jobs are esp.Decided.
func (e *Engine) finishChunk(f *flight) {
	switch {
	case f.pass == doneInFirst: // advance has done it for all packets
	case f.jobs == nil:
		e.shadow.compare(f.chunk, nil)
	default:
		e.ipsec.finish(e, f.chunk, f.jobs)
	}
}

// lose marks the packets of a chunk as lost.
func lose(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}
