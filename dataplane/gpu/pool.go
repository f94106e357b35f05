package gpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// maxSlots is the maximum of slots of a device.
const maxSlots = 256

// slotPool is the free slots of a device. Its workers take and return slots without locks: each begins
// with another word. Slot i is bit i/len(words) of word i%len(words): workers take the lowest bits, so
// the blocks of high slots can rest. Saturated workers begin at different bits, so that the memory of a slot
// stays in the cache of one core.
type slotPool struct {
	workers atomic.Int32 // engines of the device
	words   []poolWord
	slots   int
	kept    int // slots from 0 on that are nobody's; see keep
}

type poolWord struct {
	free atomic.Uint64
	_    [56]byte // a cache line each
}

// newSlotPool returns a pool without free slots.
func newSlotPool(slots int) *slotPool {
	return &slotPool{words: make([]poolWord, (slots+63)/64), slots: slots}
}

// open makes all slots free. None is in use.
func (p *slotPool) open() {
	for i := p.kept; i < p.slots; i++ {
		p.words[i%len(p.words)].free.Or(1 << (i / len(p.words)))
	}
}

// takeAll takes all free slots, as bits by word, and reports whether taken has all slots of the pool.
func (p *slotPool) takeAll(taken []uint64) bool {
	n := 0
	for i := range p.words {
		taken[i] |= p.words[i].free.Swap(0)
		n += bits.OnesCount64(taken[i])
	}
	return n == p.slots-p.kept
}

// keep keeps the first n slots from workers. No slot is free yet.
func (p *slotPool) keep(n int) { p.kept = n }

// giveBack returns slots of takeAll.
func (p *slotPool) giveBack(taken []uint64) {
	for i := range p.words {
		p.words[i].free.Or(taken[i])
	}
}

// slotRequest is which slots a worker takes: up to n.
type slotRequest struct {
	home     int // word to begin with
	from     int // bit to begin with in each word; those before it are taken last
	n        int
	reserved int // the first bits of each word, which it leaves free
}

// take adds free slots to taken and returns it. It takes as many from each word, so that the slots of one worker are
// the lowest, and what is missing from any.
func (p *slotPool) take(taken []uint16, r slotRequest) []uint16 {
	all := len(taken) + r.n
	for i := range p.words {
		left := all - len(taken)
		if left == 0 {
			return taken
		}
		words := len(p.words) - i
		r.n = (left + words - 1) / words
		taken = p.takeFrom((r.home+i)%len(p.words), taken, r)
	}
	for i := 0; i < len(p.words) && len(taken) < all; i++ {
		r.n = all - len(taken)
		taken = p.takeFrom((r.home+i)%len(p.words), taken, r)
	}
	return taken
}

// takeFrom takes free slots of a word.
func (p *slotPool) takeFrom(word int, taken []uint16, r slotRequest) []uint16 {
	free := &p.words[word].free
	for {
		old := free.Load()
		may := old &^ (1<<r.reserved - 1)
		sel := lowest(may&^(1<<r.from-1), r.n)
		sel |= lowest(may&^sel, r.n-bits.OnesCount64(sel))
		if sel == 0 {
			return taken
		}
		if !free.CompareAndSwap(old, old&^sel) {
			continue
		}
		for ; sel != 0; sel &= sel - 1 {
			taken = append(taken, uint16(bits.TrailingZeros64(sel)*len(p.words)+word))
		}
		return taken
	}
}

// share returns the bit of each word from which on the slots of a saturated worker are, by its number, behind reserved ones.
func (p *slotPool) share(worker uint32, reserved int) int {
	workers := uint32(max(1, p.workers.Load()))
	return reserved + int(worker%workers)*(p.slots/len(p.words)-reserved)/int(workers)
}

// lowest returns the n lowest set bits.
func lowest(set uint64, n int) uint64 {
	rest := set
	for ; n > 0 && rest != 0; n-- {
		rest &= rest - 1
	}
	return set &^ rest
}

// reserved returns, by lane, the number of slots of each word that its chunks leave free: those of the
// lanes before it. shares are percentages.
func (p *slotPool) reserved(shares []int) (bits [batch.MaxLanes]int) {
	perWord, before := p.slots/len(p.words), 0
	for i := range bits {
		if bits[i] = min((perWord*before+99)/100, perWord-1); i < len(shares) {
			before += shares[i]
		}
	}
	return bits
}

// put returns slots.
func (p *slotPool) put(slots []uint16) {
	words := uint16(len(p.words))
	for len(slots) > 0 { // as they were taken: by words
		w, set := slots[0]%words, uint64(0)
		for len(slots) > 0 && slots[0]%words == w {
			set |= 1 << (slots[0] / words)
			slots = slots[1:]
		}
		p.words[w].free.Or(set)
	}
}

// free returns the number of free slots, without the first reserved ones of each word.
func (p *slotPool) free(reserved int) (n int) {
	for i := range p.words {
		n += bits.OnesCount64(p.words[i].free.Load() >> reserved)
	}
	return n
}

// highest returns one more than the highest slot in use, 0 if all are free.
func (p *slotPool) highest() (n int) {
	for i := p.slots - 1; i >= 0; i-- {
		if p.words[i%len(p.words)].free.Load()>>(i/len(p.words))&1 == 0 {
			return i + 1
		}
	}
	return 0
}
