package gpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// maxBlocks is the maximum of blocks of a device.
const maxBlocks = 256

// blockPool is the free blocks of a device. Its workers take and return blocks without locks: each begins
// with another word. Block i is bit i/len(words) of word i%len(words): workers take the lowest bits, so
// high blocks can rest. Saturated workers begin at different bits, so that the memory of a block's
// slots stays in the cache of one core.
type blockPool struct {
	workers atomic.Int32 // engines of the device
	words   []poolWord
	blocks  int
	kept    int // blocks from 0 on that are nobody's; see keep
}

type poolWord struct {
	free atomic.Uint64
	_    [56]byte // a cache line each
}

// newBlockPool returns a pool without free blocks.
func newBlockPool(blocks int) *blockPool {
	return &blockPool{words: make([]poolWord, (blocks+63)/64), blocks: blocks}
}

// open makes all blocks free. None is in use.
func (p *blockPool) open() {
	for i := p.kept; i < p.blocks; i++ {
		p.words[i%len(p.words)].free.Or(1 << (i / len(p.words)))
	}
}

// takeAll takes all free blocks, as bits by word, and reports whether taken has all blocks of the pool.
func (p *blockPool) takeAll(taken []uint64) bool {
	n := 0
	for i := range p.words {
		taken[i] |= p.words[i].free.Swap(0)
		n += bits.OnesCount64(taken[i])
	}
	return n == p.blocks-p.kept
}

// keep keeps the first n blocks from workers. No block is free yet.
func (p *blockPool) keep(n int) { p.kept = n }

// giveBack returns blocks of takeAll.
func (p *blockPool) giveBack(taken []uint64) {
	for i := range p.words {
		p.words[i].free.Or(taken[i])
	}
}

// blockRequest is which blocks a worker takes: up to n.
type blockRequest struct {
	home     int // word to begin with
	from     int // bit to begin with in each word; those before it are taken last
	n        int
	reserved int // the first bits of each word, which it leaves free
}

// take adds free blocks to taken and returns it. It takes as many from each word, so that the blocks of one worker are
// the lowest, and what is missing from any.
func (p *blockPool) take(taken []uint16, r blockRequest) []uint16 {
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

// takeFrom takes free blocks of a word.
func (p *blockPool) takeFrom(word int, taken []uint16, r blockRequest) []uint16 {
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

// share returns the bit of each word from which on the blocks of a saturated worker are, by its number, behind reserved ones.
func (p *blockPool) share(worker uint32, reserved int) int {
	workers := uint32(max(1, p.workers.Load()))
	return reserved + int(worker%workers)*(p.blocks/len(p.words)-reserved)/int(workers)
}

// lowest returns the n lowest set bits.
func lowest(set uint64, n int) uint64 {
	rest := set
	for ; n > 0 && rest != 0; n-- {
		rest &= rest - 1
	}
	return set &^ rest
}

// reserved returns, by lane, the number of blocks of each word that its chunks leave free: those of the
// lanes before it. shares are percentages.
func (p *blockPool) reserved(shares []int) (bits [batch.MaxLanes]int) {
	perWord, before := p.blocks/len(p.words), 0
	for i := range bits {
		if bits[i] = min((perWord*before+99)/100, perWord-1); i < len(shares) {
			before += shares[i]
		}
	}
	return bits
}

// put returns blocks.
func (p *blockPool) put(blocks []uint16) {
	words := uint16(len(p.words))
	for len(blocks) > 0 { // as they were taken: by words
		w, set := blocks[0]%words, uint64(0)
		for len(blocks) > 0 && blocks[0]%words == w {
			set |= 1 << (blocks[0] / words)
			blocks = blocks[1:]
		}
		p.words[w].free.Or(set)
	}
}

// free returns the number of free blocks, without the first reserved ones of each word.
func (p *blockPool) free(reserved int) (n int) {
	for i := range p.words {
		n += bits.OnesCount64(p.words[i].free.Load() >> reserved)
	}
	return n
}

// highest returns one more than the highest block in use, 0 if all are free.
func (p *blockPool) highest() (n int) {
	for i := p.blocks - 1; i >= 0; i-- {
		if p.words[i%len(p.words)].free.Load()>>(i/len(p.words))&1 == 0 {
			return i + 1
		}
	}
	return 0
}
