package dataplane

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/packet/icmp"
)

// Settings of a router that may be changed while it runs.
type Settings struct {
	MaxPackets int           // of a chunk; no more than its memory has room for
	MaxDelay   time.Duration // that a packet waits for its chunk to fill, at most
	Spin       time.Duration // that a worker polls empty rings before it sleeps; 0: sleeps at once
	Limits     icmp.Limits   // of ICMP errors, by all workers together
}

// Set has all workers go on with other settings, from their next chunk on. It returns when
// all have them: a worker that sleeps takes as long as it sleeps at most. An error means
// that nothing was changed.
func (r *Router) Set(s Settings) error {
	for _, w := range r.workers {
		if s.MaxPackets < 1 || s.MaxPackets > w.room {
			return fmt.Errorf("chunks of up to %d packets: there is room for 1 to %d", s.MaxPackets, w.room)
		}
	}
	r.each(func(w *worker) { w.set(s, len(r.workers)) })
	return nil
}

// set is called by the worker, or before it runs. It is one of several.
func (w *worker) set(s Settings, workers int) {
	w.maxPackets, w.maxDelay, w.spin = s.MaxPackets, s.MaxDelay, s.Spin
	w.quota = max(1, s.MaxPackets/len(w.rx))
	w.hold.limit = min(holdSize, max(1, s.MaxPackets/2))
	s.Limits.Global.PerSecond = share(s.Limits.Global.PerSecond, workers)
	if e := &w.errands; e.limiter == nil || e.limits != s.Limits {
		e.limiter, e.limits = icmp.NewLimiter(s.Limits), s.Limits
	}
}

// call is what a worker is to do between two chunks.
type call struct {
	do   func(*worker)
	done chan struct{}
}

// each has every worker call a function between two chunks, and waits for the last. A
// worker that does not run is not asked.
func (r *Router) each(do func(*worker)) {
	r.calling.Lock()
	defer r.calling.Unlock()
	var calls []*call
	for _, w := range r.workers[:r.started] {
		c := &call{do, make(chan struct{})}
		calls = append(calls, c)
		w.call.Store(c)
	}
	for i, w := range r.workers {
		if i < len(calls) {
			select {
			case <-calls[i].done:
				continue
			case <-w.done:
			}
			select {
			case <-calls[i].done: // it was the last that it did
				continue
			default:
			}
		}
		do(w)
	}
}

// answer does what the worker was called for, if it was, and shows that it makes progress.
func (w *worker) answer() {
	if w.asked.Load() {
		w.asked.Store(false)
	}
	if c := w.call.Load(); c != nil {
		w.call.Store(nil)
		c.do(w)
		close(c.done)
	}
}
