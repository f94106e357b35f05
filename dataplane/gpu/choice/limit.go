package choice

import "time"

const (
	limitWeight = 1. / 32 // of a window in the means
	limitHold   = 512 * time.Millisecond
	limitProof  = 16 // windows in which a saturated CPU must do more
	limitRetry  = 16 * time.Second
)

// limit measures what the GPU does for a worker that waits for it. Without it the GPU would seem to be as fast as the
// worker can submit chunks. Where the CPU is predicted to do more, it becomes the usual engine for limitHold, but not if it
// then does no more, since the worker may wait at a load that the GPU can carry.
type limit struct {
	waited               float64 // share of the recent windows with the GPU as the usual engine in which the worker waited
	nanoseconds, packets float64 // means of windows in which it did

	until   time.Duration // the CPU stays the usual engine
	retry   time.Duration // it does not become the usual engine before
	gpu     float64       // nanoseconds per packet
	windows int           // with a saturated CPU since
	balance float64       // nanoseconds of these, without those that the GPU would have taken
}

// observeGPU adds a window with the GPU as the usual engine.
func (l *limit) observeGPU(nanoseconds, packets float64, waited bool) {
	l.waited -= l.waited * limitWeight
	if waited {
		l.waited += limitWeight
		l.nanoseconds += (nanoseconds - l.nanoseconds) * limitWeight
		l.packets += (packets - l.packets) * limitWeight
	}
}

// observeCPU adds a window with a saturated CPU as the usual engine.
func (l *limit) observeCPU(nanoseconds, packets float64, now time.Duration) {
	if now >= l.until {
		return
	}
	l.windows++
	if l.balance += nanoseconds - packets*l.gpu; l.windows == limitProof && l.balance > 0 {
		*l = limit{retry: now + limitRetry}
	}
}

// exceeds reports whether the GPU takes longer per packet than the CPU's nanoseconds, now or in recent windows. At the
// end of that time, the measurement begins again.
func (l *limit) exceeds(cpu float64, now time.Duration) bool {
	if l.waited > 0.5 && l.nanoseconds > cpu*l.packets && now >= l.retry {
		*l = limit{until: now + limitHold, gpu: l.nanoseconds / l.packets}
	}
	return now < l.until
}
