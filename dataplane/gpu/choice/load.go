package choice

import (
	"sync/atomic"
	"time"
)

const (
	easyShare = 0.3 // of a core
	wakeShare = 0.6
)

// Load is the share of a core that a worker needs if its CPU engine processes all of its chunks. Costs per
// chunk do not count: a worker with more packets has larger chunks, not more. A worker that is never idle
// and has full chunks needs at least one core.
//
// The worker updates it at least every millisecond in which it submits chunks; any goroutine reads it.
type Load struct {
	share atomic.Uint32 // in 1/1024 of a core, in the last window
	end   atomic.Int64  // of that window, by batch.Clock
}

func (l *Load) set(share float64, now time.Duration) {
	l.share.Store(uint32(1024 * min(share, 64)))
	l.end.Store(int64(now))
}

// Share returns the load in cores. It falls to 0 while the worker submits nothing. now is by batch.Clock.
func (l *Load) Share(now time.Duration) float64 {
	share := float64(l.share.Load()) / 1024
	if silent := now - time.Duration(l.end.Load()); silent > 2*window {
		share *= float64(2*window) / float64(silent)
	}
	return share
}

// Easy reports whether the CPU carries the load easily, so that a GPU may be parked.
func (l *Load) Easy(now time.Duration) bool { return l.Share(now) < easyShare }

// MustWake reports whether a parked GPU is needed.
func (l *Load) MustWake(now time.Duration) bool { return l.Share(now) > wakeShare }
