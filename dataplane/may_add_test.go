package dataplane

import "testing"

// TestOnlyFullChunksJoinMany: a lane has six chunks in flight; the last lane has more while its chunks are full, up to its limit.
func TestOnlyFullChunksJoinMany(t *testing.T) {
	for _, limit := range []int{0, 1, 5, 8} {
		w := worker{lanes: make([]laneState, 2), chunkLen: 256}
		w.set(Settings{MaxPackets: 256, MaxInFlight: limit}, 1)
		for lane := range w.lanes {
			l := &w.lanes[lane]
			for n := range 10 {
				for _, full := range []bool{false, true} {
					l.inFlight.n, l.full = n, full
					want := n < mostInFlight || full && lane == 1
					if lane == 1 && limit > 0 && n >= limit {
						want = false
					}
					if got := w.mayAdd(lane); got != want {
						t.Errorf("lane %d with %d chunks, the last one full: %v; limit %d: may add one: %v", lane, n, full, limit, got)
					}
				}
			}
		}
	}
}
