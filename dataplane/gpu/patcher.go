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

// patchQueue is a queue of patches.
type patchQueue struct {
	all  []patch
	head int // index of the first patch in all
}

func (q *patchQueue) len() int { return len(q.all) - q.head }

func (q *patchQueue) add(p patch) { q.all = append(q.all, p) }

// first returns the first patches, at most n. They stay valid until remove.
func (q *patchQueue) first(n int) []patch { return q.all[q.head:][:min(n, q.len())] }

// remove removes the first n patches. It moves the others to the start of the memory only if as many patches have been removed
// since it last did, so that each patch is moved once on average.
func (q *patchQueue) remove(n int) {
	if q.head += n; q.head >= q.len() {
		q.all, q.head = q.all[:copy(q.all, q.all[q.head:])], 0
	}
}

// patcher queues patches and applies them to the device in order, on a thread of its own. The writer of
// the FIB adds them.
type patcher struct {
	state     *deviceState
	apply     func([]patch) error // applies patches and waits for the device
	onApplied func()              // called after patches that the device may have by now

	applying sync.Mutex // held while apply runs

	mu      sync.Mutex // guards the following fields
	changed *sync.Cond
	queue   patchQueue
	flushes bool // the queue is to be applied
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
		for !p.closed && !(p.flushes && p.queue.len() > 0) {
			p.flushes = false
			p.changed.Wait()
		}
		if p.closed {
			return
		}
		patches := p.queue.first(maxPatches)
		p.mu.Unlock()
		if p.applyIfUsable(patches) {
			p.onApplied()
		}
		p.mu.Lock()
		p.queue.remove(len(patches))
		p.applied.Add(uint64(len(patches)))
		p.changed.Broadcast()
	}
}

// applyIfUsable applies patches and reports whether the device was usable before.
func (p *patcher) applyIfUsable(patches []patch) bool {
	p.applying.Lock()
	defer p.applying.Unlock()
	if !p.state.ok() {
		return false
	}
	if err := p.apply(patches); err != nil {
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
	p.queue.add(change)
	p.queued.Add(1)
	if p.queue.len() >= maxPatches && !p.flushes {
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
// device is up to date, unless it failed: its patches count as applied then.
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
