package dataplane

import "testing"

// TestOnlyFullChunksJoinMany: a lane has six chunks in flight; the last lane has more while its chunks are full.
func TestOnlyFullChunksJoinMany(t *testing.T) {
	w := worker{lanes: make([]laneState, 2)}
	for lane := range w.lanes {
		l := &w.lanes[lane]
		for n := range 10 {
			for _, full := range []bool{false, true} {
				l.inFlight.n, l.full = n, full
				if got, want := w.mayAdd(lane), n < mostInFlight || full && lane == 1; got != want {
					t.Errorf("lane %d with %d chunks, the last one full: %v: may add one: %v", lane, n, full, got)
				}
			}
		}
	}
}
