package gpu

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// TestFirstLaneFindsSlots: while chunks of the second lane have all slots that they may use.
func TestFirstLaneFindsSlots(t *testing.T) {
	e, blocks, chunks := newRig(t, 10, time.Minute)
	e.reserved = e.pool.reserved([]int{20, 80})
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for _, c := range chunks[:9] {
		lay(c, rnd, 3)
		c.Lane = 1
		e.Submit(c)
	}
	if used, refused := busy(e), e.executed[NoFreeSlot].Load(); used != 0x3fc {
		t.Errorf("the second lane has slots %b, %d chunks found none", used, refused)
	}
	express := chunks[10]
	lay(express, rnd, 3)
	express.Lane = 0
	e.Submit(express)
	if used := busy(e); used != 0x3fd {
		t.Errorf("slots %b are in use with a chunk of the first lane", used)
	}
	for _, b := range blocks {
		b.hang.Store(false)
	}
	await(e, express)
	for _, c := range chunks[:9] {
		await(e, c)
	}
	if e.executed[NoFreeSlot].Load() != 1 || express.Out[0].Verdict.Action() != batch.ActionForward {
		t.Errorf("%d chunks found no slot, want 1; the express chunk's packet has %v", e.executed[NoFreeSlot].Load(), express.Out[0].Verdict)
	}
}

func TestReservedSlotsByLane(t *testing.T) {
	for _, c := range []struct {
		slots  int
		shares []int
		want   [batch.MaxLanes]int
	}{
		{130, nil, [4]int{}},
		{130, []int{20, 80}, [4]int{0, 9, 42, 42}}, // of 43 in each of three words
		{64, []int{10, 20, 70}, [4]int{0, 7, 20, 63}},
		{2, []int{50, 50}, [4]int{0, 1, 1, 1}},
		{1, []int{50, 50}, [4]int{}},
	} {
		if got := newBlockPool(c.slots).reserved(c.shares); got != c.want {
			t.Errorf("%d slots, shares %v: %v, want %v", c.slots, c.shares, got, c.want)
		}
	}
}
