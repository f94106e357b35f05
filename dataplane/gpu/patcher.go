package gpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/warproute/warproute/cuda"
)

// patch is a change of device memory: Count words of Bytes bytes each, from At on, become Word.
// forward.cu has the same struct.
type patch struct {
	At           cuda.DevicePtr
	Word         uint64
	Count, Bytes uint32
}

// maxPatches is the largest number of patches of one DMA.
const maxPatches = 1 << 15

// patcher queues patches and applies them to the device in order, on a thread of its own. The writer of
// the FIB adds them.
type patcher struct {
	state     *deviceState
	apply     func([]patch) error // applies patches and waits for the device
	onApplied func()

	applying sync.Mutex // held while apply runs

	mu      sync.Mutex // guards the following fields
	changed *sync.Cond
	queue   []patch
	flushes bool // the queue is being applied
	closed  bool
	done    chan struct{}

	queued, applied atomic.Uint64 // patches since the start
}

// newPatcher starts a patcher. enter prepares its thread.
func newPatcher(state *deviceState, enter func() error, apply func([]patch) error, onApplied func()) (*patcher, error) {
	p := &patcher{state: state, apply: apply, onApplied: onApplied, done: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	entered := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // the thread ends with the goroutine
		err := enter()
		if entered <- err; err == nil {
			p.run()
		}
	}()
	return p, <-entered
}

func (p *patcher) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for !p.closed && !(p.flushes && len(p.queue) > 0) {
			p.flushes = false
			p.changed.Wait()
		}
		if p.closed {
			return
		}
		batch := p.queue[:min(len(p.queue), maxPatches)]
		p.mu.Unlock()
		if p.applyBatch(batch) {
			p.onApplied()
		}
		p.mu.Lock()
		p.queue = p.queue[:copy(p.queue, p.queue[len(batch):])]
		p.applied.Add(uint64(len(batch)))
		p.changed.Broadcast()
	}
}

// applyBatch applies patches and reports whether the device was usable before.
func (p *patcher) applyBatch(batch []patch) bool {
	p.applying.Lock()
	defer p.applying.Unlock()
	if !p.state.ok() {
		return false
	}
	if err := p.apply(batch); err != nil {
		p.state.fail(err)
	}
	return true
}

// quiesce waits until no patch is being applied. After a device failure none will be.
func (p *patcher) quiesce() {
	p.applying.Lock()
	defer p.applying.Unlock()
}

// add queues a patch.
func (p *patcher) add(change patch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, change)
	p.queued.Add(1)
	if len(p.queue) >= maxPatches && !p.flushes {
		p.flushes = true
		p.changed.Broadcast()
	}
}

// flush starts the application of all queued patches.
func (p *patcher) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushes = true
	p.changed.Broadcast()
}

// progress returns a lower bound of the applied patches, and the queued ones. If both are equal, the
// device is up to date.
func (p *patcher) progress() (applied, queued uint64) {
	if p == nil {
		return 0, 0
	}
	applied = p.applied.Load()
	return applied, p.queued.Load()
}

// drain waits until all queued patches are applied, or the device has failed.
func (p *patcher) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushes = true
	p.changed.Broadcast()
	for want := p.queued.Load(); p.applied.Load() < want && !p.closed; {
		p.flushes = true
		p.changed.Wait()
	}
}

// close ends the patcher and drops the queue.
func (p *patcher) close() {
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.done
}
