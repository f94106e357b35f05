package gpu

import (
	"sync"

	"github.com/warproute/warproute/batch"
)

// chunkCounter counts the chunks of an engine on the device, by lane: those of a lane end in the order in which they begin.
type chunkCounter struct {
	begun, ended [batch.MaxLanes]uint64
	lost         bool // an abandoned one may still run
}

// chunksOnGPU returns the engine's counter. Any goroutine may call it.
func (e *Engine) chunksOnGPU() (c chunkCounter) {
	for lane := range c.ended {
		c.ended[lane] = e.ended[lane].Load() // first: a chunk never ends before it begins
		c.begun[lane] = e.begun[lane].Load()
	}
	c.lost = e.lostNow.Load() > 0
	return c
}

// after reports whether all chunks that had begun before have ended, and no abandoned chunk may still run.
func (c chunkCounter) after(before chunkCounter) bool { return !c.lost && c.endedSince(before) }

// endedSince reports whether all chunks that had begun before have ended or were abandoned.
func (c chunkCounter) endedSince(before chunkCounter) bool {
	for lane, begun := range before.begun {
		if c.ended[lane] < begun {
			return false
		}
	}
	return true
}

// engineList is the engines that use a resource of a device, which may be replaced when all chunks have ended that had begun before. Engines
// are added while others run.
type engineList struct {
	mu  sync.Mutex
	all []*Engine
}

// add adds an engine without chunks on the device.
func (l *engineList) add(e *Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// on returns the engines of some devices.
func (l *engineList) on(device func(*deviceState) bool) (some []*Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if device(e.state) {
			some = append(some, e)
		}
	}
	return some
}

// counters returns the counters of the engines, for after and ended.
func (l *engineList) counters() (all []chunkCounter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		all = append(all, e.chunksOnGPU())
	}
	return all
}

// after reports whether all chunks that had begun before have ended, and no abandoned chunk may still run.
func (l *engineList) after(before []chunkCounter) bool { return l.each(before, chunkCounter.after) }

// ended reports whether each chunk that had begun before has ended or was abandoned. Packets of abandoned chunks are not transmitted.
func (l *engineList) ended(before []chunkCounter) bool {
	return l.each(before, chunkCounter.endedSince)
}

func (l *engineList) each(before []chunkCounter, is func(now, before chunkCounter) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range before {
		if !is(l.all[i].chunksOnGPU(), c) {
			return false
		}
	}
	return true
}
