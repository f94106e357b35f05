package dataplane

import (
	"fmt"
	"math"
	"time"

	"github.com/warproute/warproute/packet/icmp"
)

// Settings are the parameters of a router that can change while it runs.
type Settings struct {
	MaxPackets  int           // per chunk, up to the length of the chunks
	MaxBytes    int           // of the received packets of a chunk, if there are several, without FCS; 0 for any number
	MaxInFlight int           // chunks of the last lane that the engine has at a time; 0 for as many as there are
	MaxDelay    time.Duration // from the first packet of a chunk to its submission
	Spin        time.Duration // polling of empty rings before a worker sleeps; 0 sleeps at once
	Limits      icmp.Limits   // rate limits of ICMP errors, all workers together
}

// Set changes the settings of all workers, from their next chunk on, and waits for the last, up to 50
// ms for one that sleeps. After an error, nothing has changed.
func (r *Router) Set(s Settings) error {
	for _, w := range r.workers {
		if most := w.chunkLen; s.MaxPackets < 1 || s.MaxPackets > most {
			return fmt.Errorf("chunks of up to %d packets: there is room for 1 to %d", s.MaxPackets, most)
		}
	}
	r.callWorkers(func(w *worker) { w.set(s, len(r.workers)) })
	return nil
}

// set changes the settings of one of several workers. The worker calls it, or New.
func (w *worker) set(s Settings, workers int) {
	w.rx.maxPackets, w.rx.maxBytes, w.rx.maxDelay, w.spin = s.MaxPackets, s.MaxBytes, s.MaxDelay, s.Spin
	w.rx.setQuota()
	if w.maxInFlight = s.MaxInFlight; w.maxInFlight <= 0 {
		w.maxInFlight = math.MaxInt
	}
	w.pending.limit = min(pendingSize, max(1, w.chunkLen/2))
	s.Limits.Global.PerSecond = (s.Limits.Global.PerSecond + workers - 1) / workers // 0 stays 0
	if e := &w.slow.icmp; e.limiter == nil || e.limits != s.Limits {
		e.limiter, e.limits = icmp.NewLimiter(s.Limits), s.Limits
	}
}

// call is a function that a worker calls between two chunks.
type call struct {
	do   func(*worker)
	done chan struct{}
}

// callWorkers has every worker call a function between two chunks and waits for the last. It calls the
// function itself for a worker that does not run.
func (r *Router) callWorkers(do func(*worker)) {
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
			case <-calls[i].done: // called in the last iteration
				continue
			default:
			}
		}
		do(w)
	}
}

// runCalls runs the function of callWorkers, if there is one, and answers the watchdog.
func (w *worker) runCalls() {
	if w.probed.Load() {
		w.probed.Store(false)
	}
	if c := w.call.Load(); c != nil {
		w.call.Store(nil)
		c.do(w)
		close(c.done)
	}
}

// StartProbe begins a watchdog probe: every running worker answers it in its next iteration. See
// Stalled.
func (r *Router) StartProbe() {
	for _, w := range r.workers[:r.started] {
		w.probed.Store(true)
	}
}

// Stalled returns the numbers of the workers that have not answered the latest probe. An idle worker
// answers within 50 ms.
func (r *Router) Stalled() (workers []int) {
	for i, w := range r.workers[:r.started] {
		if w.probed.Load() {
			workers = append(workers, i)
		}
	}
	return workers
}
