package dataplane

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// A queue of a lane gives packets in the order in which it got them, with the time at which the oldest arrived, whatever the
// numbers of packets that are added and taken at once, and takes no more than it may.
func TestLaneQueueKeepsTheOrderOfPackets(t *testing.T) {
	type waiting struct {
		frame batch.Frame
		at    time.Duration
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	q := newLaneQueue(100)
	var want []waiting
	full, wrapped := 0, 0
	for i := range 10_000 {
		at := time.Duration(i)
		frames := make([]batch.Frame, rnd.IntN(64))
		for k := range frames {
			frames[k] = batch.Frame{Addr: rnd.Uint32(), Len: 60}
		}
		n := q.push(frames, at)
		if n != min(len(frames), 100-len(want)) {
			t.Fatalf("%d of %d packets were added to %d", n, len(frames), len(want))
		}
		if n < len(frames) {
			full++
		}
		for _, f := range frames[:n] {
			want = append(want, waiting{f, at})
		}
		if q.first+q.n > len(q.ring) {
			wrapped++
		}
		c := &batch.Chunk{}
		c.Received = time.Hour
		c.In = make([]batch.Frame, 64)
		q.take(c, 1+rnd.IntN(64), 0)
		got := c.In[:c.N]
		if c.N > 0 && c.Received != want[0].at {
			t.Fatalf("the oldest packet arrived at %v, want %v", c.Received, want[0].at)
		}
		if !slices.EqualFunc(got, want[:c.N], func(f batch.Frame, w waiting) bool { return f == w.frame }) {
			t.Fatalf("round %d: packets are in another order", i)
		}
		if want = want[c.N:]; q.n != len(want) {
			t.Fatalf("%d packets wait, want %d", q.n, len(want))
		}
	}
	if full == 0 || wrapped == 0 {
		t.Errorf("full %d times, wrapped %d times", full, wrapped)
	}
}
