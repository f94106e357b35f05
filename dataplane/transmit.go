package dataplane

import "github.com/warproute/warproute/batch"

// egress is the list of packets of a chunk that leave by one physical port.
type egress struct {
	queue  Queue // the worker's first queue of the port; nil, without frames, if no port has the number
	frames []batch.Frame
	words  []uint64 // the frames, as batch.Words
	ports  []uint16 // egress port of each frame, physical or logical
	n      int
}

// add adds a frame, as a word (batch.Words), of a physical or logical port. It reports false if there is no room,
// because the port was removed.
func (e *egress) add(frame uint64, port uint16) bool {
	n, words, ports := e.n, e.words, e.ports
	if n >= len(words) || n >= len(ports) {
		return false
	}
	words[n], ports[n], e.n = frame, port, n+1
	return true
}

// addAll adds the frames of the first packets, as long as they leave by a port: the physical port of the list, or a logical one,
// whose tag they have. It returns their number and bytes, ends when the list is full, and calls no function.
func (e *egress) addAll(port uint16, frames, results []uint64) (n, bytes int) {
	verdict, sum := uint64(batch.Forward(port)), uint64(0)
	frames = frames[:len(results)]
	words, ports := e.words[e.n:], e.ports[e.n:]
	results = results[:min(len(results), len(words), len(ports))]
	for ; n < len(results) && results[n]>>48 == verdict; n++ {
		words[n], ports[n] = results[n]+(frames[n]>>48-verdict)<<48, port
		sum += results[n] >> 32 & 0xffff
	}
	e.n += n
	return n, int(sum)
}

// transmit passes each port its list, and drops packets that do not fit the transmit ring.
func (w *worker) transmit() {
	for _, p := range w.open {
		e := &w.tx[p]
		if e.n == 0 {
			continue
		}
		n := e.queue.Transmit(e.frames[:e.n])
		w.transmitted = true
		if w.capture != nil {
			w.captureSent(e, n)
		}
		var sent tally
		sent.add(e.frames[:n])
		sent.flush(&w.counters[p].txPackets, &w.counters[p].txBytes)
		for i := n; i < e.n; i++ {
			if int(e.ports[i]) >= len(w.tx) {
				w.uncount(e.frames[i], e.ports[i])
			}
			w.drop(e.frames[i], batch.TxFull)
		}
		e.n = 0
	}
}

// reclaim frees transmitted frames and returns how many TX descriptors are not completed.
func (w *worker) reclaim() (transmitting int) {
	for _, p := range w.open {
		transmitting += w.tx[p].queue.Reclaim()
	}
	w.releaseWithheld()
	w.stats.transmitting.Store(int64(transmitting))
	w.stats.inFlight.Store(int64(w.inFlight))
	if len(w.lanes) > 1 {
		for i := range w.lanes {
			w.stats.lanes[i].queued.Store(int64(w.lanes[i].waiting.n))
		}
	}
	return transmitting
}

// withhold counts the packet of a failed engine as dropped and withholds its frame from the pool,
// because a GPU that missed its deadline may still write to it.
func (w *worker) withhold(f batch.Frame) {
	w.countDrop(f, batch.EngineFailed)
	w.withheld = append(w.withheld, f.Addr)
	w.stats.withheld.Store(int64(len(w.withheld)))
}

// releaseWithheld frees the withheld frames once the engine has quiesced.
func (w *worker) releaseWithheld() {
	if len(w.withheld) == 0 || !w.engine.Quiesced() {
		return
	}
	w.pool.PutBlock(w.withheld)
	w.withheld = w.withheld[:0]
	w.stats.withheld.Store(0)
}
