package xfrm

import (
	"fmt"
	"slices"
	"sync"

	"github.com/warproute/warproute/ipsec"
)

func spiText(spi uint32) string { return fmt.Sprintf("%#x", spi) }

// restartGap is the number of sequence numbers that existing outbound SAs skip at the start.
// Linux knows the numbers used until up to a second before a crash. 2^28 exceeds the packets of
// a second, and permits a dozen restarts within the 32-bit numbers of one key. (Inbound packets
// of that second could be replayed.)
const restartGap = 1 << 28

// memory keeps the last sequence numbers of deleted SAs by the fingerprints of their keys,
// because those in Linux are older. It also prevents two SAs with the same nonces: IVs are
// sequence numbers.
type memory struct {
	// recent is filled and then becomes earlier, which bounds the memory.
	recent, earlier map[uint64]uint64
	holders         map[uint64]*holder // by secret
}

// holder is the SA that uses a secret, until no worker can use it.
type holder struct {
	id      stateID
	waiting []*association // for the secret
}

const memorySize = 1 << 16

func newMemory() memory {
	return memory{recent: map[uint64]uint64{}, holders: map[uint64]*holder{}}
}

// last returns the last number of any SA with the keys.
func (m *memory) last(keys uint64) uint64 { return max(m.recent[keys], m.earlier[keys]) }

// enter makes an SA the holder of its secret, which must be free.
func (m *memory) enter(a *association) { m.holders[a.secret] = &holder{id: a.id} }

// wait queues a new SA if its secret has a holder, and returns the holder.
func (m *memory) wait(a *association) (other stateID, ok bool) {
	h := m.holders[a.secret]
	if h == nil {
		return other, false
	}
	h.waiting = append(slices.DeleteFunc(h.waiting, func(x *association) bool { return x.id == a.id }), a)
	return h.id, true
}

// left records the last number of a deleted SA, and returns the SAs that waited for it.
func (m *memory) left(x departed) []*association {
	if len(m.recent) >= memorySize {
		m.recent, m.earlier = map[uint64]uint64{}, m.recent
	}
	m.recent[x.numbers] = max(m.last(x.numbers), x.last)
	waiting := m.holders[x.secret].waiting
	delete(m.holders, x.secret)
	return waiting
}

// departed is a deleted SA: the keys of its numbers, and the last number.
type departed struct{ secret, numbers, last uint64 }

// numbers returns the key of an SA's sequence numbers. An outbound SA continues after any with
// its secret; inbound numbers start again with another SPI.
func (a *association) numbers(d ipsec.Direction) uint64 {
	if d == ipsec.Out {
		return a.secret
	}
	return a.keys
}

// quiesced queues functions, from any goroutine, for the mirror's. They run after all workers
// have finished with deleted entries.
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
	default: // already pending
	}
}

func (q *quiesced) take() []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// settle runs the queued functions.
func (t *tables) settle() {
	for _, do := range t.quiesced.take() {
		do()
	}
}

// depart records a deleted SA, and installs the first that waited for it.
func (t *tables) depart(x departed) {
	for _, a := range t.memory.left(x) {
		if t.states[a.id] == a {
			t.install(a)
		}
	}
}

// retire frees the indices of unused tunnels.
func (t *tables) retire() {
	tunnels := t.gateway.Retire()
	if len(tunnels) == 0 {
		return
	}
	t.hooks.Quiescent(func() {
		t.quiesced.put(func() { t.gateway.Free(tunnels) })
	})
}
