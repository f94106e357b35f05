package gpu

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hostmem"
)

// Layout of a mailbox, as in mailbox.h, which explains it.
const (
	cacheLineWords  = 8 // 64-bit words of a descriptor cache line
	cacheLineFrames = 7
	batchFrames     = 28 // maximum packets of a warp batch
	batchBytes      = 256
	linesPerBatch   = batchBytes / 8 / cacheLineWords
	halfBatch       = 2 * cacheLineFrames // maximum packets of a warp batch with two cache lines in use

	gatewayDepth = 2       // slots of a gateway's block
	noTicket     = tickets // a ticket that no batch has
	maxBatches   = 16      // of a tile
	firstTileAt  = 64      // byte of a slot, behind the done words
	doneBytes    = 256     // bytes of a slot in front of the results
	releasedAt   = 1 << 11 // byte of the mailbox: tickets to which the host has released ticket locks, by worker
	slotsAt      = 1 << 12 // byte of the mailbox: the slots, behind the control word and these
	frameBytes   = 8

	inlineBatches    = 3  // batches that can have inlined headers
	headerWords      = 8  // a cache line
	shortHeaderWords = 4  //
	shortHeaderAt    = 12 // byte of the header at which a short header begins
	completionWords  = 4
	tagCount         = 0xffff

	stop = 1<<32 - 1 // in the control word, in place of the number of awake blocks
)

// mailbox is host memory through which workers and the blocks of a GPU exchange tiles.
type mailbox struct {
	*hostmem.Memory
	control        *uint32  // awake blocks, or stop
	released       []uint32 // by worker: ticket of the batch to which the host has last released the ticket lock (kernel/ticket_lock.h)
	slots          []slot   // depth of them per block, block after block
	blocks         []blockState
	depth          int // slots of a block, 1 or 2
	batches        int // maximum of a tile
	slotBytes      int
	descriptorsAt  int
	jobsAt         int
	headersAt      int
	shortHeadersAt int
	completionsAt  int
}

// blockState counts the tiles and the used slots of a block, which begins the tiles of its slots in turn. Its owner is the worker that has taken the
// block from the pool. It has a cache line of its own.
type blockState struct {
	last uint32 // number of the last tile
	used int    // slots that the owner uses or has reserved
	_    [48]byte
}

// newMailbox maps a mailbox for blocks with a number of slots each, for tiles of up to a number of warp batches.
func newMailbox(blocks, depth, batches int) (*mailbox, error) {
	if batches > maxBatches {
		return nil, fmt.Errorf("mailbox: tiles of %d warp batches: the maximum is %d", batches, maxBatches)
	}
	packets := batches * batchFrames
	results := roundUp(packets*frameBytes, batchBytes)
	descWords := min(batches, inlineBatches) * batchBytes / 8
	slots := blocks * depth
	m := &mailbox{blocks: make([]blockState, blocks), depth: depth, batches: batches, descriptorsAt: doneBytes + results}
	m.jobsAt = m.descriptorsAt + batches*batchBytes
	m.headersAt = m.jobsAt + roundUp(packets*jobBytes, batchBytes)
	m.shortHeadersAt = m.headersAt + 8*headerWords*descWords
	m.completionsAt = m.shortHeadersAt + 8*shortHeaderWords*descWords
	m.slotBytes = m.completionsAt + 8*completionWords*descWords
	var err error
	if m.Memory, err = hostmem.Map(slotsAt + slots*m.slotBytes); err != nil {
		return nil, fmt.Errorf("mailbox of %d tiles: %w", slots, err)
	}
	m.control = (*uint32)(unsafe.Pointer(&m.Bytes[0]))
	m.released = unsafe.Slice((*uint32)(unsafe.Pointer(&m.Bytes[releasedAt])), maxWorkers)
	for i := range slots {
		b := m.Bytes[slotsAt+i*m.slotBytes:][:m.slotBytes]
		m.slots = append(m.slots, slot{
			block:        &m.blocks[i/depth],
			done:         unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), maxBatches),
			first:        (*uint32)(unsafe.Pointer(&b[firstTileAt])),
			results:      unsafe.Slice((*batch.Result)(unsafe.Pointer(&b[doneBytes])), packets),
			descriptors:  unsafe.Slice((*uint64)(unsafe.Pointer(&b[m.descriptorsAt])), batches*batchBytes/8),
			jobs:         unsafe.Slice((*deviceJob)(unsafe.Pointer(&b[m.jobsAt])), packets),
			headers:      unsafe.Slice((*header)(unsafe.Pointer(&b[m.headersAt])), descWords),
			shortHeaders: unsafe.Slice((*shortHeader)(unsafe.Pointer(&b[m.shortHeadersAt])), descWords),
			completions:  unsafe.Slice((*completion)(unsafe.Pointer(&b[m.completionsAt])), descWords),
			tagged:       make([]uint64, descWords),
		})
	}
	return m, nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// prepare readies the mailbox for a launch of the kernel with a number of awake blocks. All slots are free.
func (m *mailbox) prepare(awake int) {
	for i := range m.blocks {
		atomic.StoreUint32(m.slots[i*m.depth].first, m.blocks[i].last+1)
	}
	for i := range m.released {
		atomic.StoreUint32(&m.released[i], noTicket)
	}
	atomic.StoreUint32(m.control, uint32(awake))
}

// wakeBlocks raises the number of awake blocks to n. It has no effect on a kernel that is to stop.
func (m *mailbox) wakeBlocks(n uint32) {
	for {
		v := atomic.LoadUint32(m.control)
		if v >= n || atomic.CompareAndSwapUint32(m.control, v, n) {
			return
		}
	}
}

// sleepBlocks lowers the number of awake blocks to n, or to one more than the highest block in use. A worker
// takes a block and then reads the number; this function stores the number and then reads the pool:
// one of them sees the other.
func (m *mailbox) sleepBlocks(n uint32, p *blockPool) {
	if v := atomic.LoadUint32(m.control); v != stop && n < v && atomic.CompareAndSwapUint32(m.control, v, n) {
		m.wakeBlocks(uint32(p.highest()))
	}
}

// useBlock counts the first used slot of a block that was free, and returns a slot of it.
func (m *mailbox) useBlock(block uint16) (slot uint16) {
	m.blocks[block].used++
	return block * uint16(m.depth)
}

// nextSlot returns the slot of a block's next tile, by any slot of the block.
func (m *mailbox) nextSlot(i uint16) uint16 {
	b := int(i) / m.depth
	return uint16(b*m.depth + int(m.blocks[b].last+1)%m.depth)
}

// blockOf returns the block of a slot.
func (m *mailbox) blockOf(slot uint16) int { return int(slot) / m.depth }

// releaseLock releases the ticket lock of a worker, which the host holds, to the batch with a ticket (kernel/ticket_lock.h).
func (m *mailbox) releaseLock(worker uint32, ticket uint64) {
	atomic.StoreUint32(&m.released[worker], uint32(ticket%tickets))
}
