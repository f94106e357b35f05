package choice

import "time"

// Submitted returns the time of the choice, or, if the worker then waited for a slot, one later by that wait.
func (c *Choice) Submitted() time.Duration { return c.submitted }

// FinishCPU learns from a chunk of a class that the CPU has finished now.
func (c *Chooser) FinishCPU(choice *Choice, class Class, now time.Duration) {
	took := float64(now - choice.submitted)
	c.engine[CPU][class].observe(&choice.x, took, took, choice.submitted, now)
	c.Accuracy[CPU].record(choice.predicted, took, now)
	if c.alone() {
		c.traffic.large.finish(choice, class)
	} else {
		c.traffic.large.abandon()
	}
	c.traffic.blocked += took
	if choice.Reason == Explored {
		c.explore.charge(took - choice.predicted)
	}
}

// alone reports whether the GPU has no chunk of the worker.
func (c *Chooser) alone() bool {
	for i := range c.lanes {
		if c.lanes[i].inFlight > 0 {
			return false
		}
	}
	return true
}

// Block adds time for which the worker has processed a GPU chunk before FinishGPU.
func (c *Chooser) Block(choice *Choice, d time.Duration) { choice.blocked += d }

// FinishGPU learns from a chunk of a class that the GPU has finished: after the poll at unfinished, if not 0, and
// before the one at seen. The host's part of the work since seen ends now.
func (c *Chooser) FinishGPU(choice *Choice, class Class, unfinished, seen, now time.Duration) {
	least, took := float64(max(0, unfinished-choice.submitted)), float64(seen-choice.submitted)
	c.engine[GPU][class].observe(&choice.x, least, took, choice.submitted, seen)
	c.Accuracy[GPU].record(choice.predicted, took, now)
	blocked := float64(choice.blocked + now - seen)
	if c.engine[GPU][class].observed%sample == 0 { // the host's part changes little
		c.host[class].observe(&choice.x, blocked, blocked, choice.submitted, now)
	}
	c.traffic.blocked += blocked
	if choice.Reason == Explored {
		c.explore.charge(took - choice.predicted)
	}
	l := &c.lanes[choice.lane]
	l.inFlight--
	l.done = max(l.done, seen)
	if took > float64(window) && took > overdueTimes*choice.predicted {
		c.traffic.broken = true
	}
}

// Abandon forgets a chunk that the GPU has not finished.
func (c *Chooser) Abandon(choice *Choice) {
	c.lanes[choice.lane].inFlight--
	c.traffic.broken = true
}
