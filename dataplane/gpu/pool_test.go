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
	p := newBlockPool(130) // three words
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
		if got := p.take(nil, blockRequest{home: c.home, n: c.n, reserved: c.reserved}); !slices.Equal(got, c.want) {
			t.Errorf("home %d, %d slots, %d reserved: %v, want %v", c.home, c.n, c.reserved, got, c.want)
		}
	}
	if p.highest() != 15 {
		t.Errorf("the highest slot in use is %d, want 14", p.highest()-1)
	}
	if got := p.take(nil, blockRequest{n: 1000}); len(got) != 130-10 || p.free(0) != 0 {
		t.Errorf("%d slots of the rest, %d are free", len(got), p.free(0))
	}
	p.put([]uint16{6, 129, 1})
	if got := p.take(nil, blockRequest{n: 9}); !slices.Equal(got, []uint16{6, 129, 1}) {
		t.Errorf("%v are free, want 6, 129, 1", got)
	}
	p.put([]uint16{3, 6, 9}) // one word has all
	if got := p.take(nil, blockRequest{home: 1, n: 3}); !slices.Equal(got, []uint16{3, 6, 9}) {
		t.Errorf("%v are taken, want 3, 6, 9", got)
	}
}

// TestSaturatedWorkersKeepTheirSlots: each begins at its share of every word, and takes others' slots last.
func TestSaturatedWorkersKeepTheirSlots(t *testing.T) {
	const workers, slots, each, reserved = 8, 132, 6, 9
	p := newBlockPool(slots)
	p.open()
	p.workers.Store(workers)
	request := func(w, n int) blockRequest {
		return blockRequest{home: w, from: p.share(uint32(w), reserved), n: n, reserved: reserved}
	}
	var first [workers][]uint16
	for w := range workers {
		first[w] = p.take(nil, request(w, each))
	}
	for round := range 100 {
		for i := range workers { // in changing order
			w := (i*3 + round) % workers
			p.put(first[w])
			if got := p.take(nil, request(w, each)); !slices.Equal(got, first[w]) {
				t.Fatalf("round %d: worker %d takes %v, before %v", round, w, got, first[w])
			}
		}
	}
	for w := range workers {
		p.put(first[w])
	}
	last := p.take(nil, request(workers-1, slots+1))
	if want := slots - reserved*len(p.words); len(last) != want || p.free(reserved) != 0 {
		t.Errorf("the last worker takes %d slots, want %d", len(last), want)
	}
	for _, s := range last {
		if bit := int(s) / len(p.words); bit < reserved {
			t.Errorf("slot %d has bit %d, of %d reserved", s, bit, reserved)
		}
	}
}

// TestSlotsHaveOneOwner: while workers take and return them, and a parking kernel takes all.
func TestSlotsHaveOneOwner(t *testing.T) {
	const slots = 150
	p := newBlockPool(slots)
	p.open()
	var owners [slots]atomic.Int32
	var workers sync.WaitGroup
	for home := range 4 {
		workers.Go(func() {
			var room [maxTiles]uint16
			for i := range 5000 {
				mine := p.take(room[:0], blockRequest{home: home, n: 1 + i%maxTiles, reserved: i % 3})
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
