package choice

import "time"

const (
	limitWeight = 1. / 32 // of a window in the means
	limitHold   = 512 * time.Millisecond
)

// limit measures what the GPU does for a worker that waits for it. Without it the GPU would seem to be as fast as the
// worker can submit chunks.
type limit struct {
	waited               float64       // share of the recent windows with the GPU as the usual engine in which the worker waited
	nanoseconds, packets float64       // means of windows in which it did
	until                time.Duration // the CPU stays the usual engine, as it does more
}

// observe adds a window with the GPU as the usual engine.
func (l *limit) observe(nanoseconds, packets float64, waited bool) {
	l.waited -= l.waited * limitWeight
	if waited {
		l.waited += limitWeight
		l.nanoseconds += (nanoseconds - l.nanoseconds) * limitWeight
		l.packets += (packets - l.packets) * limitWeight
	}
}

// exceeds reports whether the GPU takes longer per packet than the CPU's nanoseconds, now or in recent windows. At the
// end of that time, the measurement begins again.
func (l *limit) exceeds(cpu float64, now time.Duration) bool {
	if l.waited > 0.5 && l.nanoseconds > cpu*l.packets {
		*l = limit{until: now + limitHold}
	}
	return now < l.until
}
