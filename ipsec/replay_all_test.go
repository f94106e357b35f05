package ipsec

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// nextNumbers returns numbers around top: in order, reordered, repeated, old, and far ahead.
func nextNumbers(rnd *rand.Rand, top, size uint64) (seqs []uint64) {
	for range 1 + rnd.IntN(60) {
		switch rnd.IntN(8) {
		case 0:
			top += rnd.Uint64N(2 * (size + 1))
		case 1:
			seqs = append(seqs, top-min(top, rnd.Uint64N(size+40)))
		case 2:
			seqs = append(seqs, top-min(top, rnd.Uint64N(32)))
		default:
			top++
			seqs = append(seqs, top)
		}
	}
	return seqs
}

func TestAcceptAllEqualsTheModel(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 64, 1000, 4096} {
		rnd := rand.New(rand.NewPCG(uint64(size), 1))
		var w window
		w.start(size)
		m := model{size: uint64(size), seen: map[uint64]bool{}}
		accepted := 0
		for range 2000 {
			seqs := nextNumbers(rnd, m.top, uint64(size))
			fresh := make([]bool, len(seqs))
			w.acceptAll(seqs, fresh)
			for i, seq := range seqs {
				if want := m.accept(seq); fresh[i] != want {
					t.Fatalf("size %d: number %d, %d of %d in %v: accepted %v, want %v", size, seq, i, len(seqs), seqs, fresh[i], want)
				}
				if fresh[i] {
					accepted++
				}
			}
			if size > 0 && w.highest() != m.top {
				t.Fatalf("size %d: the highest number is %d, want %d", size, w.highest(), m.top)
			}
			m.top = max(m.top, w.highest())
		}
		if accepted < 10_000 {
			t.Errorf("size %d: only %d accepted", size, accepted)
		}
	}
}

// TestAcceptBitsEqualsTheModel: numbers of one block, in any order, get the results of one after the other, also at the end of the range.
func TestAcceptBitsEqualsTheModel(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 64, 1000, 4096} {
		for _, base := range []uint64{0, 1<<32 - 2000, 1<<64 - 200_000} {
			rnd := rand.New(rand.NewPCG(uint64(size), base))
			var w window
			w.start(size)
			w.skip(base)
			m := model{size: uint64(size), top: base, seen: map[uint64]bool{}}
			for i := range min(base, uint64(size)) {
				m.seen[base-i] = true
			}
			accepted, refused := 0, 0
			for range 5000 {
				numbers := uint64(0)
				for range 1 + rnd.IntN(20) {
					numbers |= 1 << rnd.IntN(blockBits)
				}
				if size > 0 && size < blockBits {
					numbers &= -numbers // one
				}
				seq := max(m.top, base)
				if seq < math.MaxUint64-2*blockBits && rnd.IntN(2) == 0 {
					seq += blockBits * uint64(rnd.IntN(3))
				} else {
					seq -= min(seq, rnd.Uint64N(uint64(size)+70))
				}
				block := seq / blockBits
				fresh := w.acceptBits(block, numbers)
				for i := range uint64(blockBits) {
					if numbers>>i&1 == 0 {
						continue
					}
					want := m.accept(block*blockBits + i)
					if fresh>>i&1 != 0 != want {
						t.Fatalf("size %d: number %d with %#x of block %d: accepted %v, want %v", size, i, numbers, block, !want, want)
					}
					if want {
						accepted++
					} else {
						refused++
					}
				}
				if fresh&^numbers != 0 {
					t.Fatalf("size %d: accepted %#x of %#x", size, fresh, numbers)
				}
				if size > 0 && w.highest() != m.top {
					t.Fatalf("size %d: the highest number is %d, want %d", size, w.highest(), m.top)
				}
				m.top = max(m.top, w.highest())
			}
			if accepted < 1000 || size > 0 && refused < 1000 {
				t.Errorf("size %d: %d accepted, %d refused", size, accepted, refused)
			}
		}
	}
}

// TestALateCopyOfTheHeadChangesNothing: a worker has read the head, and copies it to the ring when others have added numbers, and
// newer blocks.
func TestALateCopyOfTheHeadChangesNothing(t *testing.T) {
	const block = 100
	for newer := range uint64(20) {
		for _, i := range []uint64{0, 5, 30} {
			var w window
			w.start(320) // a ring of 16 words
			w.accept(block*blockBits + i)
			late := w.head.Load()
			for _, seq := range []uint64{block*blockBits + i + 1, (block+newer)*blockBits + 7, block*blockBits + 9} {
				w.accept(seq)
			}
			ring := w.appendWords(nil)
			w.copyHead(late, block)
			if now := w.appendWords(nil); !slices.Equal(now, ring) {
				t.Fatalf("number %d, %d blocks later: the words were %x, and are %x", i, newer, ring, now)
			}
		}
	}
}

func TestOneOfSeveralWorkersAccepts(t *testing.T) {
	const workers, numbers = 4, 50_000
	var w window
	w.start(64)
	var accepted [numbers + 1]atomic.Uint32
	var ended sync.WaitGroup
	for range workers {
		ended.Go(func() {
			var seqs [16]uint64
			var fresh [16]bool
			for next := uint64(1); next+16 <= numbers; next += 16 {
				for i := range seqs {
					seqs[i] = next + uint64(i)
				}
				w.acceptAll(seqs[:], fresh[:])
				for i, is := range fresh {
					if is {
						accepted[seqs[i]].Add(1)
					}
				}
			}
		})
	}
	ended.Wait()
	once := 0
	for seq := range accepted {
		switch accepted[seq].Load() {
		case 0:
		case 1:
			once++
		default:
			t.Fatalf("number %d was accepted more than once", seq)
		}
	}
	if once < numbers/2 {
		t.Errorf("%d of %d numbers were accepted", once, numbers)
	}
}
