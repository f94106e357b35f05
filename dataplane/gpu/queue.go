package gpu

// A gateway's block serves two slots in turn. While it processes a tile, the worker that holds the block may post another one to the
// other slot, which the block begins when it ends the first. Without that it would be idle, for a fifth to a third of the time at full
// rate, until the worker has found the tile finished and has posted the next one.
//
// A tile queues only behind one of a first pass, of an older chunk of the lane, and the worker ends first passes in the order of
// chunks. So the tiles of a block are in the order of chunks, and none waits for the ticket of one behind it (kernel/ticket_lock.h): that
// would never come. A last pass is posted behind what is queued already; no tile waits for it, as the host itself releases the ticket lock.

const (
	// queuedShare limits the slots of a worker's chunks, those that queue included: a percentage of its share of the blocks.
	queuedShare = 150
	// queuedBytes limits the bytes of all workers' chunks: with more, tiles that queue would only wait in front of PCIe.
	queuedBytes = 5 << 20
)

// takeSlots takes slots for up to request.n tiles of a chunk, and reports whether it has found at least some of them. They are of free
// blocks or, if these are few, behind tiles of the worker's own chunks.
func (e *Engine) takeSlots(f *flight, request blockRequest, least int) bool {
	lane, tiles := f.chunk.Lane, max(least, min(request.n, e.tiling.needed(f.chunk.N, f.bytes, true)))
	if e.fewFree(lane) && e.mayQueue(lane, tiles, f.bytes) {
		f.tiles = e.queueBehind(lane, tiles, f.slots[:])
		return true
	}
	blocks := e.pool.take(f.slots[:0], request)
	if len(blocks) < least {
		e.pool.put(blocks)
		if e.behind(lane, least) < least { // beyond the limits: otherwise the CPU would execute the chunk
			return false
		}
		f.tiles = e.queueBehind(lane, tiles, f.slots[:])
		return true
	}
	for k, b := range blocks {
		f.slots[k] = e.mailbox.reserve(b)
	}
	f.tiles = len(blocks)
	e.held += len(blocks)
	return true
}

// mayQueue reports whether a number of tiles of a lane, with some bytes of packets, may queue behind those of its chunks. A worker that
// holds more blocks than its share lets them end, so that other workers find theirs.
func (e *Engine) mayQueue(lane uint8, tiles, bytes int) bool {
	l, workers := &e.lanes[lane], int(e.pool.workers.Load())
	share := e.available(lane) / workers
	return e.held <= share && l.used+tiles <= share*queuedShare/100 && l.bytes+bytes <= queuedBytes/workers && e.behind(lane, tiles) == tiles
}

// behind returns the number of tiles that can queue behind chunks of a lane, up to a limit. Only those of the last lane queue: the
// others have blocks of their own.
func (e *Engine) behind(lane uint8, limit int) int {
	if e.mailbox.depth == 1 || int(lane) != e.lastLane {
		return 0
	}
	return e.queueBehind(lane, limit, nil)
}

// queueBehind reserves slots behind up to a number of tiles of a lane, those of the oldest chunks first, and returns how many there are.
// Without room for slots, it only counts.
func (e *Engine) queueBehind(lane uint8, tiles int, slots []uint16) (n int) {
	for i := range e.inFlight {
		f := &e.inFlight[i]
		if f.placement != ExecutedOnGPU || f.pass != firstPass || f.chunk.Lane != lane {
			continue
		}
		for _, s := range f.slots[:f.tiles] {
			switch q := e.mailbox.slots[s].queue; {
			case n == tiles:
				return n
			case q.used > 1 || q.last != e.mailbox.slots[s].number: // the other slot is not free, or is not the next one
				continue
			case slots != nil:
				q.used++
				slots[n] = s
			}
			n++
		}
	}
	return n
}

// nextSlot returns the slot for the next pass of tile k of a chunk: the block's next one. It is free, or that of the tile's first pass.
func (e *Engine) nextSlot(f *flight, k int) *slot {
	f.slots[k] = e.mailbox.nextSlot(f.slots[k])
	return &e.mailbox.slots[f.slots[k]]
}

// release releases slots, and returns blocks of which none is in use to the pool.
func (e *Engine) release(slots []uint16) {
	free := e.freed[:0]
	for _, s := range slots {
		q := e.mailbox.slots[s].queue
		if q.used--; q.used == 0 {
			free = append(free, uint16(e.mailbox.blockOf(s)))
		}
	}
	e.held -= len(free)
	e.pool.put(free)
}
