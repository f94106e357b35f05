package ordered

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestStoresReachTheirWordsAlone(t *testing.T) {
	for _, n := range []int{0, 1, 5, 1 << 14, 1<<14 + 1, 3 << 14} {
		words := slices.Concat(slices.Repeat([]uint32{3}, n+1), []uint32{4, 3})
		if got := ReplaceBelow(words[1:], 4, 7); got != n {
			t.Errorf("ReplaceBelow: %d, want %d", got, n)
		}
		if want := slices.Concat([]uint32{3}, slices.Repeat([]uint32{7}, n), []uint32{4, 3}); !slices.Equal(words, want) {
			t.Errorf("ReplaceBelow of %d words: %v", n, words)
		}
		if got := ReplaceBelow(words[1:n+1], 1<<31, 1<<31); got != n {
			t.Errorf("ReplaceBelow of %d words: %d", n, got)
		}
	}
	type line [2]uint64
	lines := make([]line, 4)
	StoreLines(lines[1:], []uint64{5, 6})
	StoreLines(lines[:0], nil)
	if want := []line{{}, {5}, {6}, {}}; !slices.Equal(lines, want) {
		t.Errorf("StoreLines: %v, want %v", lines, want)
	}
	FillLines(&lines[0][1], 16, 3, 9)
	if want := []line{{0, 9}, {5, 9}, {6, 9}, {}}; !slices.Equal(lines, want) {
		t.Errorf("FillLines: %v, want %v", lines, want)
	}
	var n [3]uint64
	Add(&n[0], 2)
	AddPair(&n[0], &n[2], 3, 4)
	if want := [3]uint64{5, 0, 4}; n != want {
		t.Errorf("Add, AddPair: %v, want %v", n, want)
	}
	var pairs [2][3]uint64
	AddToEach([]*[3]uint64{&pairs[1], &pairs[0], &pairs[1]}, []uint64{7, 1 << 40, 9, 11})
	AddToEach([]*[3]uint64(nil), nil)
	if want := [2][3]uint64{{1, 1 << 40}, {2, 16}}; pairs != want {
		t.Errorf("AddToEach: %v, want %v", pairs, want)
	}
}

// TestReadersSeeProgramOrder has readers load words in the reverse of the order in which one
// writer stores them: no later store is visible before an earlier one.
func TestReadersSeeProgramOrder(t *testing.T) {
	const rounds = 20_000
	words := make([]uint32, 64)
	lines := make([][8]uint64, 4)
	var total uint64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for seen := uint64(0); seen < rounds; {
				seen = atomic.LoadUint64(&total)
				first := atomic.LoadUint64(&lines[0][0]) // stored before total, and after the others
				last := atomic.LoadUint64(&lines[3][0])
				word := atomic.LoadUint32(&words[0])
				if first < seen || last < first || uint64(word) < last {
					t.Errorf("total %d, first line %d, last line %d, word %d", seen, first, last, word)
					return
				}
			}
		})
	}
	for round := range uint64(rounds) {
		ReplaceBelow(words, 1<<31, uint32(round+1))
		FillLines(&lines[0][0], 64, len(lines), round+1)
		Add(&total, 1)
	}
	readers.Wait()
}
