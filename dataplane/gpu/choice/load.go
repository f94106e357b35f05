package choice

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	easyShare  = 0.4 // of a core
	wakeShare  = 0.7
	easyMemory = 256 * time.Millisecond // of the mean that is compared with easyShare
	wakeMemory = 2 * window             // of the one that is compared with wakeShare
	burstsGap  = 100 * time.Millisecond // between two saturated windows, that are more than a single pause
)

// Load is the share of a core that a worker needs if its CPU engine processes all of its chunks. Costs per
// chunk do not count: a worker with more packets has larger chunks, not more (largeChunks). A worker that is never idle
// and has full chunks needs at least one core.
//
// Packets that have waited during a single pause of the worker are no load. So the load is a mean; but if the worker is saturated twice
// within burstsGap, it is at once what the worker then needs.
//
// The worker updates it at least every millisecond in which it submits chunks; any goroutine reads it.
type Load struct {
	recent, lasting mean          // in cores, of about wakeMemory and easyMemory
	end             atomic.Int64  // of the last window, by batch.Clock
	saturated       time.Duration // end of the last window in which the worker was saturated; the worker's
}

// mean is an exponentially weighted mean.
type mean struct{ bits atomic.Uint64 }

func (m *mean) load() float64 { return math.Float64frombits(m.bits.Load()) }

// add adds a value that has lasted for some time.
func (m *mean) add(value float64, lasted, memory time.Duration) {
	old := m.load()
	m.bits.Store(math.Float64bits(old + (value-old)*min(1, float64(lasted)/float64(memory))))
}

// set updates the load by a window of a length that ends now.
func (l *Load) set(share float64, length, now time.Duration, saturated bool) {
	memory := wakeMemory
	if saturated {
		if l.saturated > 0 && now-l.saturated < burstsGap {
			memory = window
		}
		l.saturated = now
	}
	l.recent.add(share, length, memory)
	l.lasting.add(share, length, easyMemory)
	l.end.Store(int64(now))
}

// Share returns the load in cores. It falls to 0 while the worker submits nothing. now is by batch.Clock.
func (l *Load) Share(now time.Duration) float64 { return l.falling(&l.recent, now, wakeMemory) }

// falling returns a mean, which falls if the worker has submitted nothing for some time.
func (l *Load) falling(m *mean, now, after time.Duration) float64 {
	share := m.load()
	if silent := now - time.Duration(l.end.Load()); silent > after {
		share *= float64(after) / float64(silent)
	}
	return share
}

// Easy reports whether the CPU carries the load easily, so that a GPU may be parked. This is about the mean, since packets that
// have waited during a pause of the worker are no lasting load.
func (l *Load) Easy(now time.Duration) bool {
	return !l.MustWake(now) && l.falling(&l.lasting, now, easyMemory) < easyShare
}

// MustWake reports whether a parked GPU is needed.
func (l *Load) MustWake(now time.Duration) bool { return l.Share(now) > wakeShare }
