package gpu

import "slices"

// A gateway's block begins the tiles of two slots in turn. While it processes one, the worker that owns the block may post another one to the
// other slot, which warps begin when they have no further batch of the first. Without a queue, blocks were idle for a fifth to
// a third of the time at full rate: until the worker had found the tile finished, and had posted the next one.
//
// A tile queues only behind one of a first pass, of an older chunk of the lane. The worker ends first passes in the order of chunks. So
// the first passes of a block are in the order of chunks, and none waits for the ticket of one behind it (kernel/ticket_lock.h), which
// would never come. A last pass may come behind a younger chunk's first pass; no tile waits for it, as the host itself releases the
// ticket lock.

const (
	// queuedShare limits the slots of a worker's chunks, those that queue included: a percentage of its share of the blocks, or those of two chunks.
	queuedShare = 150
	// queuedBytes limits the bytes of the chunks with which a tile may queue; each worker has an equal part. With more, tiles would only
	// wait for PCIe.
	queuedBytes = 5 << 20
)

// takeSlots takes slots for up to request.n tiles of a chunk, and reports whether it has found at least some of them. They are of free
// blocks or, if these are few, behind tiles of the worker's own chunks. Each entry of f.slots is a slot of the block; nextSlot finds the
// tile's own.
func (e *Engine) takeSlots(f *flight, request blockRequest, least int) bool {
	lane, tiles := f.chunk.Lane, max(least, min(request.n, e.tiling.needed(f.chunk.N, f.bytes, true)))
	if e.fewFree(lane) && e.mayQueue(lane, tiles, f.bytes) {
		f.tiles = e.queueBehind(lane, tiles, f.slots[:])
		return true
	}
	blocks := e.pool.take(f.slots[:0], request)
	if len(blocks) < least {
		e.pool.put(blocks)
		if e.owned > e.share(lane) || e.canQueue(lane, least) < least { // else beyond the other limits: the CPU would execute the chunk
			return false
		}
		f.tiles = e.queueBehind(lane, tiles, f.slots[:])
		return true
	}
	for k, b := range blocks {
		f.slots[k] = e.mailbox.useBlock(b)
	}
	f.tiles = len(blocks)
	e.owned += len(blocks)
	return true
}

// mayQueue reports whether a number of tiles of a lane, with some bytes of packets, may queue behind those of its chunks. A worker that
// owns more blocks than its share does not queue, so that other workers find theirs.
func (e *Engine) mayQueue(lane uint8, tiles, bytes int) bool {
	l, share := &e.lanes[lane], e.share(lane)
	return e.owned <= share && l.used+tiles <= max(share*queuedShare/100, 2*tiles) && l.bytes+bytes <= queuedBytes/int(e.pool.workers.Load()) && e.canQueue(lane, tiles) == tiles
}

// canQueue returns the number of tiles that can queue behind chunks of a lane, up to a limit. Only those of the last lane queue: the
// others have blocks of their own.
func (e *Engine) canQueue(lane uint8, limit int) int {
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
			switch q := e.mailbox.slots[s].block; {
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

// lastPassBlocked reports whether a chunk's last pass would need a slot from which the results of an older chunk's last pass are not collected.
// That is so if the older chunk's last pass was posted between the reservation of a slot behind its first one, and the first pass of this
// chunk there.
func (e *Engine) lastPassBlocked(f *flight) bool {
	for _, s := range f.slots[:f.tiles] {
		if next := e.mailbox.nextSlot(s); next != s && e.mailbox.slots[s].block.used > 1 && e.uncollected(next) {
			return true
		}
	}
	return false
}

// uncollected reports whether a slot is that of a last pass of which the results are not collected.
func (e *Engine) uncollected(slot uint16) bool {
	for i := range e.inFlight {
		if f := &e.inFlight[i]; f.placement == ExecutedOnGPU && f.pass == lastPass && slices.Contains(f.slots[f.finished:f.tiles], slot) {
			return true
		}
	}
	return false
}

// nextSlot returns the slot for the next pass of tile k of a chunk: the block's next one. It is free, or that of the tile's first pass
// (lastPassBlocked). It replaces f.slots[k].
func (e *Engine) nextSlot(f *flight, k int) *slot {
	f.slots[k] = e.mailbox.nextSlot(f.slots[k])
	return &e.mailbox.slots[f.slots[k]]
}

// release releases slots, and returns blocks without used slots to the pool.
func (e *Engine) release(slots []uint16) {
	free := e.freed[:0]
	for _, s := range slots {
		q := e.mailbox.slots[s].block
		if q.used--; q.used == 0 {
			free = append(free, uint16(e.mailbox.blockOf(s)))
		}
	}
	e.owned -= len(free)
	e.pool.put(free)
}
