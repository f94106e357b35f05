package xfrm

import (
	"fmt"
	"slices"
	"sync"

	"github.com/warproute/warproute/ipsec"
)

func spiText(spi uint32) string { return fmt.Sprintf("%#x", spi) }

// restartGap is what outbound associations skip that are there when the mirror starts.
// Linux knows of the numbers that were used until a moment before a crash; 2^28 is more
// than leave in a second, at any rate, and leaves room for a dozen restarts within the
// 32-bit numbers of one key. (Inbound, what came in that moment could be played again.)
const restartGap = 1 << 28

// memory knows the last sequence numbers of associations that are gone, by the
// fingerprints of their keys: Linux's numbers are older than ours. And it sees to it that
// no two are there that would use the same nonces: our IVs are sequence numbers.
type memory struct {
	// recent is filled; earlier is what it was before: so that memory ends some day.
	recent, earlier map[uint64]uint64
	holders         map[uint64]*holder // by secret
}

// holder is the association that has a secret, until no worker can use it any more.
type holder struct {
	id      stateID
	waiting []*association // to take its place
}

const memorySize = 1 << 16

func newMemory() memory {
	return memory{recent: map[uint64]uint64{}, holders: map[uint64]*holder{}}
}

// last returns the last number of any association that had the keys.
func (m *memory) last(keys uint64) uint64 { return max(m.recent[keys], m.earlier[keys]) }

// enter has an association hold its secret, which none does.
func (m *memory) enter(a *association) { m.holders[a.secret] = &holder{id: a.id} }

// wait has a new association wait while another holds its secret, whose it returns.
func (m *memory) wait(a *association) (other stateID, must bool) {
	h := m.holders[a.secret]
	if h == nil {
		return other, false
	}
	h.waiting = append(slices.DeleteFunc(h.waiting, func(x *association) bool { return x.id == a.id }), a)
	return h.id, true
}

// left notes the last number of an association that is gone, and returns those that
// waited for it.
func (m *memory) left(x departed) []*association {
	if len(m.recent) >= memorySize {
		m.recent, m.earlier = map[uint64]uint64{}, m.recent
	}
	m.recent[x.numbers] = max(m.last(x.numbers), x.last)
	waiting := m.holders[x.secret].waiting
	delete(m.holders, x.secret)
	return waiting
}

// departed is an association that is gone: what its numbers go by, and the last.
type departed struct{ secret, numbers, last uint64 }

// numbers is what the numbers of an association go by. One that protects what leaves goes
// on behind any with its secret; a peer begins with another SPI anew.
func (a *association) numbers(d ipsec.Direction) uint64 {
	if d == ipsec.Out {
		return a.secret
	}
	return a.keys
}

// quiesced hands over from any goroutine what is to be done, on the mirror's, when no
// worker knows any more of what was taken out of its sight.
type quiesced struct {
	mu   sync.Mutex
	list []func()
	wake chan struct{}
}

func (q *quiesced) put(do func()) {
	q.mu.Lock()
	q.list = append(q.list, do)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // it will be seen
	}
}

func (q *quiesced) take() []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// settle does what has become due.
func (t *tables) settle() {
	for _, do := range t.quiesced.take() {
		do()
	}
}

// depart notes what has departed, and installs the first that waited for it; others wait on.
func (t *tables) depart(x departed) {
	for _, a := range t.memory.left(x) {
		if t.states[a.id] == a {
			t.install(a)
		}
	}
}

// retire gives the numbers of bundles back that nothing is of any more.
func (t *tables) retire() {
	bundles := t.gateway.Retire()
	if len(bundles) == 0 {
		return
	}
	t.hooks.Quiescent(func() {
		t.quiesced.put(func() { t.gateway.Free(bundles) })
	})
}
