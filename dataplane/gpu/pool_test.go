package gpu

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSlotsAreTakenLowestFirst: so that the blocks of high slots can rest. Reserved slots are left.
func TestSlotsAreTakenLowestFirst(t *testing.T) {
	p := newSlotPool(130) // three words
	p.open()
	if n := p.free(0); n != 130 || p.highest() != 0 {
		t.Errorf("%d slots are free, the highest in use is %d", n, p.highest())
	}
	for _, c := range []struct {
		home, n, reserved int
		want              []uint16
	}{
		{0, 4, 0, []uint16{0, 3, 1, 2}},
		{1, 1, 0, []uint16{4}},
		{4, 2, 0, []uint16{7, 5}},
		{2, 2, 4, []uint16{14, 12}},
		{2, 1, 0, []uint16{8}},
	} {
		if got := p.take(nil, c.home, c.n, c.reserved); !slices.Equal(got, c.want) {
			t.Errorf("home %d, %d slots, %d reserved: %v, want %v", c.home, c.n, c.reserved, got, c.want)
		}
	}
	if p.highest() != 15 {
		t.Errorf("the highest slot in use is %d, want 14", p.highest()-1)
	}
	if got := p.take(nil, 0, 1000, 0); len(got) != 130-10 || p.free(0) != 0 {
		t.Errorf("%d slots of the rest, %d are free", len(got), p.free(0))
	}
	p.put([]uint16{6, 129, 1})
	if got := p.take(nil, 0, 9, 0); !slices.Equal(got, []uint16{6, 129, 1}) {
		t.Errorf("%v are free, want 6, 129, 1", got)
	}
	p.put([]uint16{3, 6, 9}) // one word has all
	if got := p.take(nil, 1, 3, 0); !slices.Equal(got, []uint16{3, 6, 9}) {
		t.Errorf("%v are taken, want 3, 6, 9", got)
	}
}

// TestSlotsHaveOneOwner: while workers take and return them, and a parking kernel takes all.
func TestSlotsHaveOneOwner(t *testing.T) {
	const slots = 150
	p := newSlotPool(slots)
	p.open()
	var owners [slots]atomic.Int32
	var workers sync.WaitGroup
	for home := range 4 {
		workers.Go(func() {
			var room [maxTiles]uint16
			for i := range 5000 {
				mine := p.take(room[:0], home, 1+i%maxTiles, i%3)
				for _, s := range mine {
					if owners[s].Add(1) != 1 {
						t.Errorf("slot %d has two owners", s)
					}
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
				for _, s := range mine {
					owners[s].Add(-1)
				}
				p.put(mine)
			}
		})
	}
	for range 50 {
		taken := make([]uint64, len(p.words))
		for !p.takeAll(taken) {
			runtime.Gosched()
		}
		for i := range owners {
			if owners[i].Load() != 0 {
				t.Errorf("slot %d has an owner while all slots are taken", i)
			}
		}
		p.giveBack(taken)
		runtime.Gosched()
	}
	workers.Wait()
	if p.free(0) != slots {
		t.Errorf("%d of %d slots are free in the end", p.free(0), slots)
	}
}

func TestLowestBits(t *testing.T) {
	for _, set := range []uint64{0, 1, 1 << 63, 0xf0f0, 1<<64 - 1} {
		for n := range 66 {
			got := lowest(set, n)
			if got&^set != 0 || bits.OnesCount64(got) != min(n, bits.OnesCount64(set)) || got != 0 && set&(1<<(63-bits.LeadingZeros64(got))-1)&^got != 0 {
				t.Errorf("lowest %d bits of %#x: %#x", n, set, got)
			}
		}
	}
}
