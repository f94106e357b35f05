package gpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/warproute/warproute/cuda"
)

// patch is a change of the device's memory: Count words of Bytes bytes each, from
// an address on, become Word. forward.cu has the same.
type patch struct {
	At           cuda.DevicePtr
	Word         uint64
	Count, Bytes uint32
}

// maxPatches is how many changes go to the device at once.
const maxPatches = 1 << 15

// patcher has changes made on the device, in the order in which they were added.
// Whoever changes the forwarding base adds them; a goroutine of the patcher's own,
// on a thread of its own, sees them through.
type patcher struct {
	health *health
	apply  func([]patch) error // makes changes on the device and waits until it has
	told   func()              // called whenever it has

	applying sync.Mutex // held while apply runs

	mu    sync.Mutex // guards what follows
	moved *sync.Cond
	queue []patch
	due   bool // the queue is to be worked off
	ended bool
	done  chan struct{}

	// Changes so far, and those of them that were made. Any goroutine may read them.
	added, made atomic.Uint64
}

// newPatcher starts a patcher. enter prepares the goroutine's thread.
func newPatcher(h *health, enter func() error, apply func([]patch) error, told func()) (*patcher, error) {
	p := &patcher{health: h, apply: apply, told: told, done: make(chan struct{})}
	p.moved = sync.NewCond(&p.mu)
	entered := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
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
		for !p.ended && !(p.due && len(p.queue) > 0) {
			p.due = false
			p.moved.Wait()
		}
		if p.ended {
			return
		}
		batch := p.queue[:min(len(p.queue), maxPatches)]
		p.mu.Unlock()
		if p.change(batch) {
			p.told()
		}
		p.mu.Lock()
		p.queue = p.queue[:copy(p.queue, p.queue[len(batch):])]
		p.made.Add(uint64(len(batch)))
		p.moved.Broadcast()
	}
}

// change makes changes on the device, and reports whether it is in use.
func (p *patcher) change(batch []patch) bool {
	p.applying.Lock()
	defer p.applying.Unlock()
	if !p.health.ok() {
		return false
	}
	if err := p.apply(batch); err != nil {
		p.health.fail(err)
	}
	return true
}

// quiesce returns when no change is being made. If the device is out of use, none will be.
func (p *patcher) quiesce() {
	p.applying.Lock()
	defer p.applying.Unlock()
}

// add puts a change behind those that were added before.
func (p *patcher) add(change patch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, change)
	p.added.Add(1)
	if len(p.queue) >= maxPatches && !p.due {
		p.due = true
		p.moved.Broadcast()
	}
}

// flush has everything that was added made soon.
func (p *patcher) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
	p.moved.Broadcast()
}

// changes returns how many changes were made at least, and how many were added. If the two
// are equal, the device has every change.
func (p *patcher) changes() (made, added uint64) {
	if p == nil {
		return 0, 0
	}
	made = p.made.Load()
	return made, p.added.Load()
}

// settle returns when everything that was added has been made, or the device has
// failed.
func (p *patcher) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
	p.moved.Broadcast()
	for want := p.added.Load(); p.made.Load() < want && !p.ended; {
		p.due = true
		p.moved.Wait()
	}
}

// close ends the patcher; what was not made is not made any more.
func (p *patcher) close() {
	p.mu.Lock()
	p.ended = true
	p.moved.Broadcast()
	p.mu.Unlock()
	<-p.done
}
