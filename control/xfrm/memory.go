package xfrm

import (
	"fmt"
	"sync"
)

func spiText(spi uint32) string { return fmt.Sprintf("%#x", spi) }

// restartGap is what outbound associations skip that are there when the mirror starts.
// Linux knows of the numbers that were used until a moment before a crash; 2^28 is more
// than leave in a second, at any rate, and leaves room for a dozen restarts within the
// 32-bit numbers of one key. (Inbound, what came in that moment could be played again.)
const restartGap = 1 << 28

// memory knows the last sequence numbers of associations that are gone, by the
// fingerprints of their keys: Linux's numbers are older than ours.
type memory struct {
	// recent is filled; earlier is what it was before: so that memory ends some day.
	recent, earlier map[uint64]uint64
	departing       map[uint64]*departing
}

// departing are associations with the same keys that workers may still use.
type departing struct {
	count   int
	waiting []*association // to take their place
}

const memorySize = 1 << 16

func newMemory() memory {
	return memory{recent: map[uint64]uint64{}, departing: map[uint64]*departing{}}
}

// last returns the last number of any association that had the keys.
func (m *memory) last(keys uint64) uint64 { return max(m.recent[keys], m.earlier[keys]) }

// leave notes that an association is about to go.
func (m *memory) leave(keys uint64) {
	d := m.departing[keys]
	if d == nil {
		d = &departing{}
		m.departing[keys] = d
	}
	d.count++
}

// wait has a new association wait while one with its keys is about to go, and reports
// whether it must.
func (m *memory) wait(a *association) bool {
	d := m.departing[a.keys]
	if d == nil {
		return false
	}
	d.waiting = append(d.waiting, a)
	return true
}

// left notes the last number of an association that is gone, and returns those that
// waited for it.
func (m *memory) left(x departed) []*association {
	if len(m.recent) >= memorySize {
		m.recent, m.earlier = map[uint64]uint64{}, m.recent
	}
	m.recent[x.keys] = max(m.last(x.keys), x.last)
	d := m.departing[x.keys]
	if d.count--; d.count > 0 {
		return nil
	}
	delete(m.departing, x.keys)
	return d.waiting
}

// departed is an association that is gone.
type departed struct{ keys, last uint64 }

// quiesced hands over from any goroutine what has departed.
type quiesced struct {
	mu   sync.Mutex
	list []departed
	wake chan struct{}
}

func (q *quiesced) put(x departed) {
	q.mu.Lock()
	q.list = append(q.list, x)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // it will be seen
	}
}

func (q *quiesced) take() []departed {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// settle notes what has departed, and installs what waited for it.
func (t *tables) settle() {
	for _, x := range t.quiesced.take() {
		for _, a := range t.memory.left(x) {
			if t.states[a.id] == a {
				t.install(a)
			}
		}
	}
}
