package choice

const (
	limitWeight = 1. / 32 // of a window in the means
	limitHold   = 512     // windows
)

// limit is what the GPU can do for a worker that waits for it. Without it the GPU would seem to be as fast as the
// worker can submit chunks.
type limit struct {
	nanoseconds, packets float64 // means of windows with the GPU as the usual engine
	waited               float64 // share of these in which the worker waited
	hold                 int     // windows for which the CPU stays the usual engine, as it does more
}

// observe adds a window.
func (l *limit) observe(usual Engine, nanoseconds, packets float64, waited bool) {
	if l.hold--; l.hold == 0 {
		l.waited = 0 // measure again
	}
	if usual == CPU {
		return
	}
	mean := func(old *float64, v float64) { *old += (v - *old) * limitWeight }
	mean(&l.nanoseconds, nanoseconds)
	mean(&l.packets, packets)
	if waited {
		mean(&l.waited, 1)
	} else {
		mean(&l.waited, 0)
	}
}

// exceeds reports whether the GPU takes longer per packet than the CPU's nanoseconds, and did in recent windows.
func (l *limit) exceeds(cpu float64) bool {
	if l.hold <= 0 && l.waited > 0.5 && l.nanoseconds > cpu*l.packets {
		l.hold = limitHold
	}
	return l.hold > 0
}
