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
// because those in Linux are older. It also prevents two SAs with the same nonces: an IV is the
// process's random base plus the sequence number.
type memory struct {
	// recent is filled and then becomes earlier, which bounds the memory.
	recent, earlier map[uint64]uint64
	owners          map[uint64]*owner // by nonce ID
}

// owner is the SA that uses a nonce sequence, until no worker can use it.
type owner struct {
	id      stateID
	waiting []*association // for the nonce sequence
}

const memorySize = 1 << 16

func newMemory() memory {
	return memory{recent: map[uint64]uint64{}, owners: map[uint64]*owner{}}
}

// last returns the last number of any SA with the keys.
func (m *memory) last(keys uint64) uint64 { return max(m.recent[keys], m.earlier[keys]) }

// claim makes an SA the owner of its nonce sequence, which must be free.
func (m *memory) claim(a *association) { m.owners[a.nonceID] = &owner{id: a.id} }

// wait queues a new SA if its nonce sequence has an owner, and returns the owner.
func (m *memory) wait(a *association) (other stateID, ok bool) {
	h := m.owners[a.nonceID]
	if h == nil {
		return other, false
	}
	h.waiting = append(slices.DeleteFunc(h.waiting, func(x *association) bool { return x.id == a.id }), a)
	return h.id, true
}

// release records the last number of a deleted SA, and returns the SAs that waited for it.
func (m *memory) release(x deletedSA) []*association {
	if len(m.recent) >= memorySize {
		m.recent, m.earlier = map[uint64]uint64{}, m.recent
	}
	m.recent[x.numbers] = max(m.last(x.numbers), x.last)
	waiting := m.owners[x.nonceID].waiting
	delete(m.owners, x.nonceID)
	return waiting
}

// deletedSA is a deleted SA: its nonce sequence, the key of its numbers, and the last number.
type deletedSA struct{ nonceID, numbers, last uint64 }

// numbers returns the key of an SA's sequence numbers. An outbound SA continues after any with
// its nonce sequence; inbound numbers start again with another SPI.
func (a *association) numbers(d ipsec.Direction) uint64 {
	if d == ipsec.Out {
		return a.nonceID
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

// runQuiesced runs the queued functions.
func (t *tables) runQuiesced() {
	for _, do := range t.quiesced.take() {
		do()
	}
}

// recordDeleted records a deleted SA, and installs the first that waited for it.
func (t *tables) recordDeleted(x deletedSA) {
	for _, a := range t.memory.release(x) {
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
