package ipsec

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// window is an anti-replay window (RFC 4303 section 3.4.3, RFC 6479). Sequence numbers are in
// blocks of 32. A word holds the bits of a received block, and the lower 32 bits of its number above them. It is
// replaced as a whole by compare-and-swap, so exactly one of several workers sets a bit, without a lock.
//
// The word of the newest block is the head, beside the other fields, so that most packets touch one cache line. Before a newer block
// replaces it, a worker copies it to the ring; it is replaced only if it still has exactly the bits that were copied. Word i of the
// ring holds the newest block b with b mod len(ring) = i, apart from the head's, of which it may have an earlier copy.
//
// A word is never replaced by one of an older block. The ring is longer than the window, so a
// number whose word has a newer block is older than the window.
type window struct {
	head   atomic.Uint64 // its highest bit is that of the highest number
	newest atomic.Uint64 // number of the head's block; stored after the head
	size   uint64        // in numbers; 0: accept all
	ring   []atomic.Uint64
}

const (
	blockBits = 32
	lineWords = 8 // in a cache line
)

// start starts a window of a number of sequence numbers.
func (w *window) start(size int) {
	words := 1
	for words*blockBits < size+2*blockBits { // the window may begin and end inside a block
		words *= 2
	}
	w.size = uint64(size)
	w.ring = make([]atomic.Uint64, words, max(words, lineWords)) // at least a cache line: other workers write the words of other SAs
}

// highest returns the highest number that was accepted or skipped, 0 without one. While workers accept numbers, it is an accepted one,
// and not below any whose acceptance ended before the call.
func (w *window) highest() uint64 {
	block := w.newest.Load()
	head := w.head.Load()
	block += uint64(age(head, block)) // it may be newer
	return block*blockBits + uint64(max(1, bits.Len32(uint32(head)))) - 1
}

// age returns the number of blocks by which a word is newer than a block.
func age(word, block uint64) int64 { return int64(int32(uint32(word>>32) - uint32(block))) }

// skip marks all numbers up to seq as received.
func (w *window) skip(seq uint64) {
	if len(w.ring) == 0 || seq <= w.highest() {
		return
	}
	block := seq / blockBits
	for i := range w.ring {
		// The newest block of this word that is not above seq's.
		b := block - (block-uint64(i))%uint64(len(w.ring))
		w.ring[i].Store(b<<blockBits | math.MaxUint32)
	}
	inBlock := seq%blockBits + 1 // numbers of its block that are skipped
	w.continueAt(block, block<<blockBits|(1<<inBlock-1))
}

// continueAt stores the word of the newest block. No worker may use the window.
func (w *window) continueAt(block, word uint64) {
	w.word(block).Store(word)
	w.head.Store(word)
	w.newest.Store(block)
}

// infer returns the full number for a packet's lower 32 bits, by RFC 4303 appendix A2.2: the one in
// the window or else in the next 2^32. It is not ok beyond the last number.
func (w *window) infer(low uint32) (seq uint64, ok bool) {
	top := w.highest()
	topLow, high := uint32(top), top>>32
	bottom := topLow - uint32(w.size) + 1
	if topLow >= uint32(w.size)-1 { // case A: the window lies within one range of 2^32
		if low < bottom {
			high++
		}
	} else if low >= bottom { // case B: it begins in the previous range
		high--
	}
	if high > math.MaxUint32 { // beyond either end
		return 0, false
	}
	return high<<32 | uint64(low), true
}

// fresh reports whether seq may be new.
func (w *window) fresh(seq uint64) bool {
	block, bit := seq/blockBits, uint64(1)<<(seq%blockBits)
	if w.size == 0 {
		return true
	}
	if w.old(block)&bit != 0 {
		return false
	}
	word := w.head.Load()
	if age(word, block) > 0 {
		word = w.word(block).Load()
	}
	newer := age(word, block)
	return newer < 0 || newer == 0 && word&bit == 0
}

// accept marks seq as received and reports whether it was new.
func (w *window) accept(seq uint64) bool {
	return w.acceptBits(seq/blockBits, 1<<(seq%blockBits)) != 0
}

// acceptAll is accept for each of several numbers, in order. It sets the bits of numbers in a row that are
// in one block at once.
func (w *window) acceptAll(seqs []uint64, fresh []bool) {
	for len(seqs) > 0 {
		n := 1
		if w.size < blockBits {
			fresh[0] = w.accept(seqs[0])
		} else {
			n = w.acceptBlock(seqs, fresh)
		}
		seqs, fresh = seqs[n:], fresh[n:]
	}
}

// acceptBlock is acceptAll for the first numbers, as many as are in one block and differ.
func (w *window) acceptBlock(seqs []uint64, fresh []bool) (n int) {
	block, numbers := seqs[0]/blockBits, uint64(0)
	for ; n < len(seqs) && seqs[n]/blockBits == block && numbers>>(seqs[n]%blockBits)&1 == 0; n++ {
		numbers |= 1 << (seqs[n] % blockBits)
	}
	numbers = w.acceptBits(block, numbers)
	for i, seq := range seqs[:n] {
		fresh[i] = numbers>>(seq%blockBits)&1 != 0
	}
	return n
}

// acceptBits is accept for numbers of one block, bit i for its number i, all compared with the highest before the call. It returns the
// bits of those that are accepted.
func (w *window) acceptBits(block, numbers uint64) (accepted uint64) {
	if w.size == 0 {
		accepted = numbers
		w.mark(block, numbers) // for highest
	} else {
		accepted = w.mark(block, numbers&^w.old(block))
	}
	if accepted != 0 {
		w.raise(block)
	}
	return accepted
}

// old returns the bits of the numbers of a block that are older than the window, which is not 0, and of number 0.
func (w *window) old(block uint64) (numbers uint64) {
	if block == 0 {
		numbers = 1
	}
	if w.size >= blockBits && block >= w.newest.Load() { // no number of the newest block is older than such a window
		return numbers
	}
	first := block * blockBits
	if top := w.highest(); top >= w.size && top-w.size >= first {
		numbers |= 1<<min(top-w.size-first+1, blockBits) - 1
	}
	return numbers
}

// mark sets bits of a block, and returns those that were not set, none if the ring's word holds a newer block.
func (w *window) mark(block, numbers uint64) (fresh uint64) {
	for numbers != 0 {
		head := w.head.Load()
		next := block<<blockBits | numbers
		switch newer := age(head, block); {
		case newer > 0:
			return setBits(w.word(block), block, numbers)
		case newer == 0:
			numbers &^= head
			next = head | numbers
		default:
			w.copyHead(head, block+uint64(newer))
		}
		if numbers == 0 || w.head.CompareAndSwap(head, next) {
			break
		}
	}
	return numbers
}

// copyHead copies what a worker has read as the head, the word of a block, to the ring. The head may have been replaced meanwhile, and
// the ring's word may have more bits.
func (w *window) copyHead(head, block uint64) {
	setBits(w.word(block), block, head&math.MaxUint32)
}

// setBits sets bits of a block in a word of the ring, and returns those that were not set, none if the word holds a newer block.
func setBits(word *atomic.Uint64, block, numbers uint64) (fresh uint64) {
	for numbers != 0 {
		old := word.Load()
		next := block<<blockBits | numbers
		if newer := age(old, block); newer > 0 {
			return 0
		} else if newer == 0 {
			numbers &^= old
			next = old | numbers
		}
		if numbers == 0 || word.CompareAndSwap(old, next) {
			break
		}
	}
	return numbers
}

// word returns the ring's word for a block.
func (w *window) word(block uint64) *atomic.Uint64 { return &w.ring[block%uint64(len(w.ring))] }

// raise makes a block the newest one, unless a newer one is. The head is stored already.
func (w *window) raise(block uint64) {
	for {
		newest := w.newest.Load()
		if block <= newest || w.newest.CompareAndSwap(newest, block) {
			return
		}
	}
}
