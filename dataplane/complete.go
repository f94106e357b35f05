package dataplane

import "github.com/warproute/warproute/batch"

// complete dispatches and transmits the packets of finished chunks: all of the first lane, and at most one of each
// other lane, the oldest first. It reports whether there was one.
func (w *worker) complete() bool {
	if w.inFlight == 0 {
		return false
	}
	finished, now := [batch.MaxLanes]int{}, batch.Clock()
	total := 0
	for i := range w.lanes {
		n, l := 0, &w.lanes[i]
		most := l.inFlight.n
		if i > 0 {
			most = min(most, 1) // before packets of the first lane are received again
		}
		for n < most && w.engine.Done(l.inFlight.at(n)) {
			l.inFlight.at(n).Finished = now
			n++
		}
		finished[i] = n
		total += n
	}
	left := total
	for i := range w.lanes {
		for range finished[i] {
			w.finish(w.removeOldest(i))
			w.releaseOldest() // finish looks up routes, too (hopTo)
			if left--; left > 0 {
				w.reclaim() // a transmit ring may not have room for several chunks
			}
		}
	}
	return total > 0
}

// finish dispatches and transmits the packets of a chunk that the engine has finished, and frees the chunk.
func (w *worker) finish(c *batch.Chunk) {
	c.Ordered = batch.Clock()
	if w.capture != nil {
		w.captureDecided(c)
	}
	w.dispatch(c)
	if w.transmit(); w.transmitted {
		w.transmitted, w.hostTime.ports = false, c.Ordered
	}
	w.sendToHost(&w.host)
	w.sendToHost(&w.exit)
	w.stats.waiting.Store(int64(w.pending.n)) // before the drops, which a reader adds to it
	w.drops.flush(w.counters)
	c.Sent = batch.Clock()
	if w.capture != nil {
		w.writeTraces(c)
	}
	w.stats.record(c)
	w.free = append(w.free, c)
}

// dispatch sorts the packets of a finished chunk by verdict: to the list of the egress port, the
// pending queue, the slow path, the withheld frames or the pool.
func (w *worker) dispatch(c *batch.Chunk) {
	in, out := c.In[:c.N], c.Out[:c.N]
	frames, words := batch.Words(in), batch.Words(out)
	w.unprepared = len(out)
	if c.Retried > 0 { // first, so that new packets find the places of those that leave
		w.pending.finishRetry(w.mem, c)
	}
	for i := 0; i < len(out); i++ {
		r := out[i]
		switch port := int(r.Verdict.Port()); {
		case r.Verdict.Action() == batch.ActionForward && port < len(w.tx):
			if !w.tx[port].add(batch.FrameWord(words[i], in[i].Origin), uint16(port)) {
				// removed after the engine's decision
				w.drop(batch.Frame{Addr: r.Addr(), Len: r.Len(), Origin: in[i].Origin}, batch.PortDown)
			} else if i+1 < len(out) && out[i+1].Verdict == r.Verdict {
				n, _ := w.tx[port].addAll(uint16(port), frames[i+1:], words[i+1:])
				i += n
			}
		case r.Verdict.Action() == batch.ActionForward && w.logical.get(uint16(port)) != nil:
			if n := w.listLogical(in[i:], out[i:]); n > 0 {
				i += n - 1
				break
			}
			// deleted after the engine's decision, or a bond without a member that transmits
			if out[i].Verdict.Action() == batch.ActionForward {
				r = out[i] // with a tag of prepare
			}
			w.drop(batch.Frame{Addr: r.Addr(), Len: r.Len(), Origin: in[i].Origin}, batch.PortDown)
		case r.Verdict.Action() == batch.ActionHold:
			if i < c.Retried {
				break
			}
			if f, full := w.pending.addUnresolved(w.mem, in[i], r.Adjacency(), c.Finished); full {
				w.drop(f, batch.NeighborQueueFull)
			}
		case r.Verdict == unknownSA && (i < c.Retried || w.pending.addUnknownSA(in[i], c.Finished)):
		case r.Verdict == batch.Lost:
			w.withhold(in[i])
		case r.Verdict.Action() == batch.ActionDrop:
			w.handleException(in[i], r, c.Finished)
		default: // an invalid verdict, or a port that does not exist
			w.drop(in[i], batch.Unprocessed)
		}
	}
}

// drop counts a frame as dropped and frees it. A packet that the router originated is subtracted from
// the originated ones instead, because no port has received it.
func (w *worker) drop(f batch.Frame, reason batch.Reason) {
	if f.Origin.Has(batch.Own) {
		w.stats.originated.Add(-1)
	} else {
		w.countDrop(f, reason)
	}
	w.pool.Put(f.Addr)
}

// addDrop adds a drop to the counters of a port.
func (w *worker) addDrop(port uint16, reason batch.Reason) {
	if int(port) < len(w.counters) {
		w.drops.add(port, reason)
	} else {
		w.logical.get(port).drops[reason].Add(1)
	}
}

// countDrop counts a frame as dropped under its ingress port.
func (w *worker) countDrop(f batch.Frame, reason batch.Reason) {
	w.addDrop(f.Origin.Port(), reason)
	if w.capture != nil {
		w.captureDropped(f, reason)
	}
}
