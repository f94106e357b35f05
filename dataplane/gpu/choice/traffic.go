package choice

import "time"

const (
	window       = time.Millisecond
	averageDelay = 1.5  // of a packet, in iterations of the worker: waiting half of one, and one
	minFree      = 0.05 // share of time that a worker is assumed to have for the costs per chunk
	overloaded   = 1e6  // nanoseconds that a packet takes if it is more than an engine can do
	crowded      = 4    // chunks in flight
	stayGain     = 0.9  // of the usual engine's time in comparisons with the other's
)

// traffic describes the chunks of about the last millisecond, and decides on the usual engine.
type traffic struct {
	usual   Engine
	port    estimate // receiving and transmitting
	largest float64  // packets of the largest chunk since the start
	limit   limit
	large   largeChunks

	waiting      bool // for a slot of the GPU
	waitingSince time.Duration

	// The current window.
	begin, idle     time.Duration
	waitedChosen    time.Duration       // for slots, after choices: idle, but not in the worker's idle time
	chunks, count   float64             // chunks and their packets
	lane            uint8               // the last one
	inLane, full    float64             // packets of this lane, and of its full chunks
	waited          float64             // nanoseconds, for slots, before full chunks
	lastWait        float64             // the same, since the last chunk
	need            [NumClasses]float64 // nanoseconds of the worker in large chunks of the CPU, by class
	single, squares float64             // packets and squares of the packets of chunks behind few others
	size, queued    float64             // bytes of the chunks, and the GPU's backlog in bytes
	blocked         float64             // nanoseconds in an engine
	broken          bool                // the worker could not receive for some time

	// Means of recent windows.
	rate      float64 // packets per nanosecond
	bytes     float64 // of a packet
	packets   float64 // of a packet's chunk, behind few others
	backlog   float64 // bytes
	busy      float64 // share of time
	saturated bool    // nine of ten packets of the last lane were in full chunks in the last window, and no idle time but for waiting
}

func newTraffic() traffic { return traffic{port: newEstimate(priorPort)} }

// count adds a chunk to the traffic.
func (c *Chooser) count(w *Work, x *terms, at *Situation) {
	t := &c.traffic
	c.EndWait(at.Now)
	t.large.submit(at)
	if w.Full { // else there was nothing to submit
		t.waited += t.lastWait
	}
	t.lastWait = 0
	switch {
	case t.broken:
		t.restart(at)
	case at.Now-t.begin >= window:
		if t.chunks > 0 {
			c.endWindow(at)
		}
		t.restart(at)
	}
	t.chunks++
	t.count += x[packets]
	e := &c.engine[CPU][w.Class]
	t.need[w.Class] += x[packets] * t.large.perPacket(w.Class, x[bytes]/max(x[packets], 1), (e.marginal(x)+t.port.marginal(x))/max(x[packets], 1), at.Now)
	if c.lanes[at.Lane].inFlight < crowded { // else the chunk has grown by waiting
		t.single += x[packets]
		t.squares += x[packets] * x[packets]
	}
	if at.Lane > t.lane {
		t.lane, t.inLane, t.full = at.Lane, 0, 0
	}
	if at.Lane == t.lane {
		t.inLane += x[packets]
		if w.Full {
			t.full += x[packets]
		}
	}
	t.size += x[bytes]
	t.queued += x[backlog]
	t.largest = max(t.largest, x[packets])
}

func (t *traffic) restart(at *Situation) {
	t.begin, t.idle, t.waitedChosen, t.chunks, t.count, t.need = at.Now, at.Idle, 0, 0, 0, [NumClasses]float64{}
	t.lane, t.inLane, t.full, t.waited = 0, 0, 0, 0
	t.single, t.squares, t.size, t.queued, t.blocked, t.broken = 0, 0, 0, 0, 0, false
}

// endWindow updates the means, the cost of receiving and transmitting, the usual engine and the load. The class that needs the most
// time decides on the usual engine.
func (c *Chooser) endWindow(at *Situation) {
	t := &c.traffic
	length := float64(at.Now - t.begin)
	n := max(t.count, 1)
	mean := func(old *float64, v float64) { *old += (v - *old) / 2 }
	waited := t.waited > length/2
	t.saturated = false
	if t.idle >= 0 && at.Idle >= t.idle {
		busy := max(0, 1-float64(at.Idle-t.idle+t.waitedChosen)/length)
		mean(&t.busy, busy)
		t.saturated = (busy > 0.98 || waited) && t.full > 0.9*t.inLane
		if length < 2*float64(window) {
			other := max(0, busy*length-t.blocked)
			t.port.observe(&terms{t.chunks, t.count, t.size, 0}, other, other, t.begin, at.Now)
		}
	}
	mean(&t.rate, t.count/length)
	mean(&t.bytes, t.size/n)
	mean(&t.packets, t.squares/max(t.single, 1))
	mean(&t.backlog, t.queued/t.chunks)
	switch {
	case t.usual == GPU:
		t.limit.observeGPU(length, n, waited)
	case t.saturated:
		t.limit.observeCPU(length, n, at.Now)
	}
	most, need := Forward, 0.
	for class, ns := range t.need {
		need += ns
		if ns > t.need[most] {
			most = Class(class)
		}
	}
	t.usual = c.better(most, at.Now)
	share := need / length
	if t.saturated {
		share = max(share, 1)
	}
	c.Load.set(share, at.Now-t.begin, at.Now, t.saturated)
}

// perPacket returns the nanoseconds of a worker per packet in large chunks, for an engine that blocks it as
// estimated.
func (c *Chooser) perPacket(e *estimate) float64 {
	x := terms{0, 1, c.traffic.bytes, 0}
	return e.marginal(&x) + c.traffic.port.marginal(&x)
}

// iteration returns the packets of a chunk, and the nanoseconds of an iteration of the worker, if an
// engine that blocks it as estimated serves all traffic: chunks grow until their costs are covered.
func (c *Chooser) iteration(e *estimate) (n, nanoseconds float64) {
	t, one := &c.traffic, terms{1, 0, 0, 0}
	perChunk, perPacket := e.cost(&one)+t.port.cost(&one), c.perPacket(e)
	n = max(1, t.packets)
	free := 1 - t.rate*perPacket
	if free < 0.01 || t.saturated {
		return n, overloaded
	}
	n = max(n, min(t.rate*perChunk/max(free, minFree), t.largest))
	return n, perChunk + n*perPacket
}

// better returns the engine that transmits packets sooner if it serves all traffic.
func (c *Chooser) better(class Class, now time.Duration) Engine {
	t := &c.traffic
	_, cpu := c.iteration(&c.engine[CPU][class])
	n, host := c.iteration(&c.host[class])
	if cpu == overloaded && host == overloaded {
		cpu = c.perPacket(&c.engine[CPU][class])
		if cpu < c.perPacket(&c.host[class]) || t.limit.exceeds(cpu, now) {
			return CPU
		}
		return GPU
	}
	e := &c.engine[GPU][class]
	cpu, gpu := cpu*averageDelay, host*averageDelay+e.cost(&terms{1, n, n * t.bytes, t.backlog})+e.risk(now)
	if t.usual == GPU {
		gpu *= stayGain
	} else {
		cpu *= stayGain
	}
	if cpu < gpu {
		return CPU
	}
	return GPU
}
