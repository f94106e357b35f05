package gpu

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// Engine is the GPU engine of one worker.
type Engine struct {
	cpu         *cpu.Engine // fallback
	esp         *esp.Stage  // nil: no IPsec
	state       *deviceState
	kernel      *kernelState
	outage      workerOutage
	mailbox     *mailbox
	pool        *blockPool
	number      uint32 // of the worker on its device
	slotsMissed bool   // the last wait for slots was in vain
	umem        []byte
	ipsec       *ipsecPath // nil: no IPsec
	tiling      tiling
	reserved    [batch.MaxLanes]int // blocks that chunks of a lane leave free, by word of the pool
	lastLane    int
	lanes       [batch.MaxLanes]laneChunks
	timeout     time.Duration // for a chunk, of the time in which the GPU finishes others
	limit       time.Duration // for a chunk, in all
	late        bool          // the oldest chunk on the GPU is; see waits
	othersShare int           // see the constant; 0, in tests: any chunk
	traffic     [batch.MaxLanes]laneTraffic
	lender      *lender         // nil: the host takes all sequence numbers
	seqAssign   seqAssignment   // by the device
	chooser     *choice.Chooser // nil: the GPU gets every chunk that it accepts
	checker     checker
	shadow      *shadow         // nil: off
	fakeGPU     func(f *flight) // finishes the tiles of a posted chunk in place of a GPU (tests, null device); nil with one

	queuedGeneration *atomic.Uint32 // of tables, which the device follows

	inFlight []flight         // submitted chunks, oldest first
	lost     []uint16         // slots of abandoned chunks that the GPU has not finished
	freed    [maxTiles]uint16 // room for release
	owned    int              // blocks of which the worker uses slots

	// Written by the worker alone.
	executed       [numPlacements]atomic.Uint64  // chunks
	explored       atomic.Uint64                 // of those on the GPU, for choice.Explored
	onGPU, lostNow atomic.Int64                  // chunks on the GPU; lost slots
	begun, ended   [batch.MaxLanes]atomic.Uint64 // chunks on the GPU since the start
}

// newEngine returns the engine of a worker. It uses the times and thresholds of o.
func newEngine(fallback *cpu.Engine, state *deviceState, kernel *kernelState, m *mailbox, pool *blockPool, umem []byte, o Options) *Engine {
	e := &Engine{
		cpu: fallback, esp: fallback.ESP(), state: state, kernel: kernel, outage: workerOutage{first: o.Pause}, mailbox: m, pool: pool, umem: umem,
		timeout: o.Timeout, limit: max(o.Timeout, o.Limit), tiling: o.tiling(m.batches, pool.blocks), reserved: pool.reserved(o.Shares), lastLane: max(0, len(o.Shares)-1),
		othersShare:      othersShare,
		checker:          newChecker(umem, state, len(o.PartialChecksums), fallback),
		queuedGeneration: &atomic.Uint32{}, inFlight: make([]flight, 0, 64), lost: make([]uint16, 0, len(m.slots)),
	}
	pool.workers.Add(1)
	if o.Choose {
		e.chooser = choice.New()
	}
	return e
}

// Name returns "gpu" while the GPU is in use, else the name of the CPU engine.
func (e *Engine) Name() string {
	if e.state.ok() && e.state.stale.Load() == nil && e.outage.current.Load() == nil {
		return "gpu"
	}
	return e.cpu.Name()
}

// Submit passes a chunk to the GPU as tiles, each to a free block or behind another tile (queue.go). The CPU engine
// executes the chunk if the GPU is out of use or parked, if too few blocks are free and it cannot queue, or if the CPU
// is chosen (Options.Choose).
func (e *Engine) Submit(c *batch.Chunk) {
	e.inFlight = e.inFlight[:len(e.inFlight)+1]
	f := &e.inFlight[len(e.inFlight)-1]
	*f = flight{chunk: c, bytes: e.bytesOf(c), placement: NoFreeSlot} // in the memory of an earlier flight; not ExecutedOnGPU, as place may call freeSlots
	if f.placement = e.place(f); f.placement == ExecutedOnGPU {
		e.onGPU.Add(1)
		f.needed = e.tiling.needed(c.N, f.bytes, e.ipsec != nil)
		e.lanes[c.Lane].begin(f)
		e.begun[c.Lane].Add(1)
		e.begin(f)
	} else if f.deferred = e.defers(c); f.deferred {
		e.lanes[c.Lane].deferred++
	} else {
		e.cpu.Submit(c)
	}
	f.submitted = batch.Clock()
	if e.chooser != nil {
		e.observeSubmit(f)
	}
}

// plainBytes is the number of bytes that a packet moves over PCIe if it is not encrypted or decrypted.
const plainBytes = 64

// bytesOf returns the bytes of a chunk that move over PCIe each way.
func (e *Engine) bytesOf(c *batch.Chunk) (bytes int) {
	if e.esp == nil {
		return plainBytes * c.N
	}
	for i := range c.In[:c.N] {
		bytes += int(c.In[i].Len)
	}
	return bytes
}

// place takes slots for a chunk, or returns why the CPU executes it.
func (e *Engine) place(f *flight) Placement {
	if p := e.choose(f); p != ExecutedOnGPU {
		return p
	}
	request := blockRequest{home: int(e.number), reserved: e.reserved[f.chunk.Lane]}
	f.free = e.pool.free(request.reserved)
	free := f.free
	if e.saturated(f.chunk) {
		free = 0                             // to spread the chunk over
		if int(f.chunk.Lane) == e.lastLane { // others have blocks of their own in front
			request.from = e.pool.share(e.number, request.reserved)
		}
	}
	want, least := e.tiling.tiles(f.chunk.N, f.bytes, e.ipsec != nil, len(e.inFlight) == 1, free)
	request.n = want
	if !e.awaitSlots(f, request, least) {
		e.withdrawChoice(f)
		return NoFreeSlot
	}
	e.slotsMissed = false
	highest := 0
	for _, s := range f.slots[:f.tiles] {
		highest = max(highest, e.mailbox.blockOf(s))
	}
	f.blocks = uint32(highest) + 1
	e.mailbox.wakeBlocks(f.blocks)
	return ExecutedOnGPU
}

// ProcessReassembled implements dataplane.ReassembledEngine on the CPU: the packet is in no frame.
func (e *Engine) ProcessReassembled(p []byte, origin batch.Origin) (batch.Frame, batch.Result, []byte) {
	return e.cpu.ProcessReassembled(p, origin)
}

// post writes the tiles of a chunk to its slots. If the worker has no other chunk in flight and the tiles
// are small, it inlines their headers (low-latency path). If this is the last pass of a chunk to which the device
// assigned numbers, it releases the ticket lock first.
func (e *Engine) post(f *flight) {
	c, umem := f.chunk, []byte(nil)
	if f.assignsSeqs() {
		e.releaseLock(f.ticket)
	}
	if f.jobs == nil && len(e.inFlight) == 1 && c.N <= min(f.tiles, inlineTiles)*inlineFrames {
		umem = e.umem
	}
	for k := range f.tiles {
		s, first, end := e.nextSlot(f, k), f.tileStart(k), f.tileStart(k+1)
		in := c.In[first:end]
		if f.jobs == nil {
			s.post(in, batchFrames, e.number, umem, 0)
			continue
		}
		for i := range in {
			s.jobs[i].set(&f.jobs[first+i])
		}
		s.post(in, e.tiling.each(len(in)), e.number, nil, hasJobsFlag)
	}
	if e.fakeGPU != nil {
		e.fakeGPU(f)
	}
}
