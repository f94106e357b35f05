package choice

import "time"

const (
	switchGain = 1.15 // by which the other engine's score must be better than the usual one's
	ownWeight  = 0.5  // of the time for which a chunk blocks the worker, on an idle worker
	maxWeight  = 8.   // the same on a busy worker, in addition

	// A GPU chunk is overdue after this time beyond the predicted end, if it is also longer than
	// overdueTimes the predicted time.
	overdue      = 10 * time.Microsecond
	overdueTimes = 2.
)

// Chooser chooses the engine of each chunk of a worker. Only the worker calls its methods; any goroutine
// may read Load and Accuracy.
type Chooser struct {
	Load     Load
	Accuracy [NumEngines]Accuracy

	engine  [NumEngines][NumClasses]estimate // submission to result
	host    [NumClasses]estimate             // time for which a GPU chunk blocks the worker
	traffic traffic
	explore explorer
	lanes   [maxLanes]lane
}

// lane describes the chunks of a lane on the GPU.
type lane struct {
	inFlight int
	done     time.Duration // predicted end of all of them; not before the last end of one
	longest  float64       // predicted nanoseconds of the last one
}

// New returns the chooser of a worker.
func New() *Chooser {
	c := &Chooser{explore: newExplorer(), traffic: newTraffic()}
	for class := range NumClasses {
		c.engine[CPU][class] = newEstimate(priorCPU[class])
		c.engine[GPU][class] = newEstimate(priorGPU[class])
		c.host[class] = newEstimate(priorHost[class])
	}
	return c
}

// Prior costs in nanoseconds per chunk, packet, byte, and byte of backlog, by class ("bench latency",
// "bench ipsec").
var (
	priorCPU  = [NumClasses]terms{{300, 28, 0.01, 0}, {500, 300, 0.5, 0}, {500, 500, 3, 0}}
	priorGPU  = [NumClasses]terms{{4500, 17, 0.01, 0.03}, {8000, 40, 0.05, 0.03}, {10000, 60, 0.1, 0.03}}
	priorHost = [NumClasses]terms{{200, 9, 0.01, 0}, {500, 170, 0.02, 0}, {500, 170, 0.02, 0}}
	priorPort = terms{200, 25, 0.001, 0} // receiving and transmitting
)

// Choice is the engine of a chunk, with the data that learning from the chunk needs.
type Choice struct {
	Engine    Engine
	Reason    Reason
	lane      uint8
	full      bool
	idle      time.Duration // of the worker so far
	before    lane          // the lane without the chunk
	onCPU     float64       // predicted nanoseconds
	x         terms
	submitted time.Duration
	predicted float64       // nanoseconds
	blocked   time.Duration // so far, by a GPU chunk
}

// Choose returns the engine of a chunk that is submitted now. The caller reports the end of the chunk to
// FinishCPU, FinishGPU or Abandon.
func (c *Chooser) Choose(w Work, at Situation) Choice {
	x := terms{1, float64(w.Packets), float64(w.Bytes), float64(at.Backlog)}
	onCPU, onGPU := c.engine[CPU][w.Class].cost(&x), c.engine[GPU][w.Class].cost(&x)
	c.count(&w, &x, &at)
	choice := Choice{Engine: CPU, lane: at.Lane, full: w.Full, idle: at.Idle, x: x, submitted: at.Now, predicted: onCPU, onCPU: onCPU}
	switch at.GPU {
	case Full:
		choice.Reason = GPUFull
	case Parked:
		choice.Reason = GPUParked
	case Out:
		choice.Reason = GPUOut
	case Late:
		choice.Reason = GPULate
	default:
		if at.Behind {
			choice.Engine, choice.Reason = GPU, Sooner
			break
		}
		scores := c.scores(w.Class, &x, &at, onCPU, onGPU)
		choice.Engine, choice.Reason = c.explore.choose(c, w.Class, &scores)
	}
	if choice.Engine == GPU {
		l := &c.lanes[at.Lane]
		c.traffic.large.abandon()
		choice.predicted, choice.before = onGPU, *l
		l.inFlight++
		l.done, l.longest = max(l.done, at.Now+time.Duration(onGPU)), onGPU
	}
	return choice
}

// Wait reports whether the worker waits for a GPU that has no free slot for a chunk of a lane: if the GPU is the usual
// engine, and does not stand still. The first such call begins the wait.
func (c *Chooser) Wait(lane uint8, now time.Duration) bool {
	if !c.waits(&c.lanes[lane], now) {
		c.EndWait(now)
		return false
	}
	return true
}

// WaitChosen is Wait for a chunk that was just chosen for the GPU. EndWaitChosen ends the wait.
func (c *Chooser) WaitChosen(choice *Choice, now time.Duration) bool {
	return c.waits(&choice.before, now)
}

// waits reports whether the worker waits for a GPU that has the chunks of a lane, and begins the wait.
func (c *Chooser) waits(l *lane, now time.Duration) bool {
	t := &c.traffic
	if _, stalled := l.earlier(now); t.usual == CPU || stalled > 0 {
		return false
	}
	if !t.waiting {
		t.waiting, t.waitingSince = true, now
	}
	return true
}

// Waiting reports whether a wait has begun and not ended.
func (c *Chooser) Waiting() bool { return c.traffic.waiting }

// EndWait ends a wait: slots are free, or the GPU is not in use.
func (c *Chooser) EndWait(now time.Duration) {
	if t := &c.traffic; t.waiting {
		t.waiting = false
		t.lastWait += float64(now - max(t.waitingSince, t.begin))
	}
}

// EndWaitChosen ends the wait for a slot for a chunk, if there was one: slots are free, or Refuse is next. The wait is no cost of the
// chunk, which counts as submitted that much later.
func (c *Chooser) EndWaitChosen(choice *Choice, now time.Duration) {
	t, l := &c.traffic, &c.lanes[choice.lane]
	if !t.waiting {
		return
	}
	wait := now - t.waitingSince
	c.EndWait(now)
	t.waitedChosen += wait
	choice.submitted += wait
	l.done = max(l.done, choice.submitted+time.Duration(choice.predicted))
}

// MustWake reports whether a parked GPU is needed, for the load or for a chunk that was just chosen.
func (c *Chooser) MustWake(choice *Choice) bool {
	return choice.onCPU > wakeShare*float64(window) || c.Load.MustWake(choice.submitted)
}

// Refuse gives a chunk that was just chosen for the GPU to the CPU, as the GPU has no free slot.
func (c *Chooser) Refuse(choice *Choice) {
	c.lanes[choice.lane] = choice.before
	choice.Engine, choice.Reason, choice.predicted = CPU, GPUFull, choice.onCPU
}

// scores returns the costs of a chunk by engine, in nanoseconds: the time to its completion, after the
// earlier chunks of its lane, and the time for which it blocks the worker, with a weight. While the
// CPU is the usual engine, a blocked worker delays only packets that arrive meanwhile. While it is the GPU, the
// worker may not have the time.
func (c *Chooser) scores(class Class, x *terms, at *Situation, onCPU, onGPU float64) [NumEngines]float64 {
	earlier, stalled := c.lanes[at.Lane].earlier(at.Now)
	weight, risk := ownWeight, 0.
	if t := &c.traffic; t.usual == GPU { // its accidents delay chunks on the CPU, too
		weight += min(t.busy/max(1-t.busy, 1e-3), maxWeight)
	} else {
		risk = c.engine[GPU][class].risk(at.Now)
	}
	scores := [NumEngines]float64{
		CPU: max(onCPU, earlier) + onCPU*weight,
		GPU: max(onGPU+risk, earlier) + c.host[class].cost(x)*weight + stalled,
	}
	scores[1-c.traffic.usual] *= switchGain
	return scores
}

// earlier returns the predicted nanoseconds until a lane's chunks on the GPU are done, and the part by which
// a stalled GPU delays further ones: it is expected to take as long again.
func (l *lane) earlier(now time.Duration) (until, stalled float64) {
	if l.inFlight == 0 {
		return 0, 0
	}
	until = float64(l.done - now)
	if late := -until; late > float64(overdue) && late > overdueTimes*l.longest {
		return late, late
	}
	return max(until, 0), 0
}
