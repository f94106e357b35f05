package soak

import (
	"testing"
	"time"
)

// watch checks the beds at intervals, with load and changes paused, and prints a table.
type watch struct {
	t       *testing.T
	beds    []*bed
	changes *changes
	length  time.Duration
	every   time.Duration // from one check to the next
	first   [][]counts    // by bed and router, after the first interval
}

func newWatch(t *testing.T, beds []*bed, c *changes, length time.Duration) *watch {
	return &watch{t: t, beds: beds, changes: c, length: length, every: min(length/4, time.Minute)}
}

func (w *watch) run() {
	w.t.Logf("%8s  %-8s %12s %12s %10s %8s %7s %10s %9s %5s %6s %11s", "time", "bed", "sent", "arrived", "dropped", "by GPU", "outages", "recoveries", "memory", "fds", "tasks", "free frames")
	start := time.Now()
	for time.Since(start) < w.length && !w.t.Failed() {
		for _, b := range w.beds {
			b.rate.Store(b.load)
		}
		time.Sleep(min(w.every, w.length-time.Since(start)))
		w.changes.pause.Lock()
		for _, b := range w.beds {
			b.rate.Store(0)
		}
		for i, b := range w.beds {
			a := b.quiet()
			b.check(a)
			w.show(time.Since(start), b, a)
			w.grown(i, a.routers)
		}
		w.changes.pause.Unlock()
	}
	close(w.changes.stop)
	w.changes.done.Wait()
	plain := w.beds[0].account().routers[0]
	if plain.timeouts == 0 || plain.recoveries == 0 || plain.byGPU == 0 {
		w.t.Errorf("the GPU decided on %d chunks, failed over %d times and recovered %d times: none may be 0", plain.byGPU, plain.timeouts, plain.recoveries)
	}
}

func (w *watch) show(at time.Duration, b *bed, a account) {
	for i, c := range a.routers {
		w.t.Logf("%8s  %-8s %12d %12d %10d %8d %7d %10d %5d MiB %5d %6d %11d", at.Round(time.Second), b.routers[i].name,
			a.sent-b.before.sent, a.reached-b.before.reached, c.dropped-b.before.routers[i].dropped, c.byGPU, c.timeouts, c.recoveries, c.resident>>10, c.fds, c.tasks, c.free)
	}
}

// Permitted growth of a process after the first interval. By then tables and the heap have about their
// maximum size.
const (
	moreMemory = 32 << 10 // KiB
	moreFDs    = 4
	moreTasks  = 8
	fewerFree  = 256 // frames: the number in rings varies
)

// grown checks that nothing grows.
func (w *watch) grown(bed int, now []counts) {
	if len(w.first) == bed {
		w.first = append(w.first, now)
		return
	}
	for i, c := range now {
		f, name := w.first[bed][i], w.beds[bed].routers[i].name
		if c.resident > f.resident+f.resident/10+moreMemory {
			w.t.Errorf("%s: %d KiB of memory, %d after the first interval", name, c.resident, f.resident)
		}
		if c.fds > f.fds+moreFDs {
			w.t.Errorf("%s: %d descriptors, %d after the first interval", name, c.fds, f.fds)
		}
		if c.tasks > f.tasks+moreTasks {
			w.t.Errorf("%s: %d threads, %d after the first interval", name, c.tasks, f.tasks)
		}
		if c.free < f.free-fewerFree {
			w.t.Errorf("%s: %d frames are free, %d after the first interval", name, c.free, f.free)
		}
	}
}
