package choice

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulation is a worker on a host, with a deterministic clock in nanoseconds.
type simulation struct {
	host
	load
	policy                  policy
	noises, arrivals, slice *rand.Rand

	now, idle, from float64 // from: packets that arrive earlier do not count
	next            float64 // arrival of the next burst
	ring            []arrival
	flights         []*simFlight
	linkFree        float64 // time from which the GPU's link is free
	pauseAt         float64
	preemptAt       float64
	polled          float64 // last poll in vain

	sent      int
	latencies []float64
	choices   []simChoice
}

type arrival struct {
	at    float64
	bytes int
}

type simChoice struct {
	at  float64
	gpu bool
}

type simFlight struct {
	packets          []arrival
	work             Work
	choice           Choice
	passed, finished float64 // the link, and the GPU
}

// policy chooses the engines of a simulation.
type policy interface {
	choose(w Work, at Situation, inFlight int) Choice
	waits(now time.Duration) bool // for a full GPU
	finishCPU(c *Choice, w Work, now time.Duration)
	block(c *Choice, d time.Duration)
	finishGPU(c *Choice, w Work, unfinished, seen, now time.Duration)
}

type learned struct{ *Chooser }

func (l learned) choose(w Work, at Situation, _ int) Choice      { return l.Choose(w, at) }
func (l learned) waits(now time.Duration) bool                   { return l.Wait(0, now) }
func (l learned) finishCPU(c *Choice, w Work, now time.Duration) { l.FinishCPU(c, w.Class, now) }
func (l learned) block(c *Choice, d time.Duration)               { l.Block(c, d) }
func (l learned) finishGPU(c *Choice, w Work, unfinished, seen, now time.Duration) {
	l.FinishGPU(c, w.Class, unfinished, seen, now)
}

// threshold gives chunks of up to so many packets to the CPU if no other chunk is in flight.
type threshold int

func (t threshold) choose(w Work, at Situation, inFlight int) Choice {
	if at.GPU != Ready || w.Packets <= int(t) && inFlight == 0 {
		return Choice{Engine: CPU}
	}
	return Choice{Engine: GPU}
}
func (threshold) waits(time.Duration) bool                                             { return false }
func (threshold) finishCPU(*Choice, Work, time.Duration)                               {}
func (threshold) block(*Choice, time.Duration)                                         {}
func (threshold) finishGPU(*Choice, Work, time.Duration, time.Duration, time.Duration) {}

// result is of the packets of a simulation.
type result struct {
	mean, p99 float64 // nanoseconds from arrival to transmission
	rate      float64 // packets per nanosecond
	choices   []simChoice
}

// onGPU returns the share of chunks that the GPU had between two times.
func (r *result) onGPU(from, to float64) float64 {
	n, gpu := 0., 0.
	for _, c := range r.choices {
		if c.at >= from && c.at < to {
			n++
			if c.gpu {
				gpu++
			}
		}
	}
	return gpu / n
}

// latencies has the memory of the latest simulation's latencies, for the next one.
var latencies []float64

// simulate runs a worker for some nanoseconds; packets that arrive before from do not count.
func simulate(h host, l load, p policy, length, from float64) result {
	rnd := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(1, stream)) }
	s := &simulation{host: h, load: l, policy: p, noises: rnd(1), arrivals: rnd(2), slice: rnd(3), from: from, pauseAt: math.Inf(1), preemptAt: math.Inf(1)}
	s.latencies = latencies[:0]
	defer func() { latencies = s.latencies }()
	if h.pause > 0 {
		s.pauseAt = h.pauseEvery / 2
	}
	if h.preempted > 0 {
		s.preemptAt = h.preemptedEvery / 2
	}
	for s.now < length {
		s.iterate()
	}
	r := result{rate: float64(s.sent) / (s.now - from), choices: s.choices}
	if len(s.latencies) == 0 { // the worker is behind by the whole time
		r.mean, r.p99 = math.Inf(1), math.Inf(1)
		return r
	}
	for _, v := range s.latencies {
		r.mean += v / float64(len(s.latencies))
	}
	r.p99 = nth(s.latencies, len(s.latencies)*99/100)
	return r
}

// nth returns the value that sorting would move to an index, in linear time. It reorders the values.
func nth(values []float64, index int) float64 {
	for len(values) > 1 {
		pivot, low, high := values[len(values)/2], 0, len(values)-1
		for low <= high {
			for values[low] < pivot {
				low++
			}
			for values[high] > pivot {
				high--
			}
			if low <= high {
				values[low], values[high] = values[high], values[low]
				low, high = low+1, high-1
			}
		}
		switch {
		case index <= high:
			values = values[:high+1]
		case index >= low:
			values, index = values[low:], index-low
		default: // between both parts, which are equal to the pivot
			return pivot
		}
	}
	return values[0]
}

func (s *simulation) clock() time.Duration { return time.Duration(s.now) }

// jitter returns a time with noise.
func (s *simulation) jitter(d float64) float64 { return d * max(0.5, 1+s.noise*s.noises.NormFloat64()) }

// spend advances the clock by work of the worker.
func (s *simulation) spend(d float64) {
	s.now += s.jitter(d)
	if s.now >= s.preemptAt {
		s.now += s.preempted
		s.preemptAt = s.now + s.preemptedEvery*(0.5+s.slice.Float64())
	}
}

// iterate is an iteration of the worker's loop.
func (s *simulation) iterate() {
	if s.changeAt > 0 && s.now >= s.changeAt {
		s.change(&s.host)
		s.changeAt = 0
	}
	start, busy := s.now, false
	s.spend(simLoop)
	s.arrive()
	if len(s.ring) > 0 && len(s.flights) < simChunks && !s.waits() {
		busy = true
		s.submit()
	}
	for len(s.flights) > 0 && s.flights[0].finished <= s.now {
		busy = true
		s.complete()
	}
	if busy {
		return
	}
	next := s.next
	if len(s.flights) > 0 {
		s.polled = s.now
		if next = min(next, s.flights[0].finished); len(s.ring) > 0 {
			next = s.flights[0].finished
		}
	}
	s.now = max(s.now, min(next, s.now+50_000))
	s.idle += s.now - start
}

// waits reports whether the worker waits for the GPU, as one of a gateway does: it is full, and has chunks of the worker.
func (s *simulation) waits() bool {
	return s.class != Forward && s.backlog() > simFull && s.policy.waits(s.clock())
}

// arrive adds the bursts that have arrived to the ring. Packets that do not fit are lost.
func (s *simulation) arrive() {
	for n := max(1, s.burst); s.next <= s.now; s.next += s.arrivals.ExpFloat64() / s.rate * float64(n) {
		for range n {
			if size := s.size(s.arrivals); len(s.ring) < simRing {
				s.ring = append(s.ring, arrival{s.next, size})
			}
		}
	}
}

func (s *simulation) submit() {
	n := min(len(s.ring), simMaxPackets)
	f := &simFlight{packets: s.ring[:n:n]}
	s.ring = s.ring[n:]
	f.work = Work{Packets: n, Class: s.class, Full: n == simMaxPackets}
	for _, p := range f.packets {
		f.work.Bytes += p.bytes
	}
	s.spend(simReceive * float64(n))
	waiting := s.backlog()
	at := Situation{Now: s.clock(), Idle: time.Duration(s.idle), Backlog: int(waiting / (1 - s.others))}
	if waiting > simFull {
		at.GPU = Full
	}
	f.choice = s.policy.choose(f.work, at, len(s.flights))
	s.choices = append(s.choices, simChoice{s.now, f.choice.Engine == GPU})
	if f.choice.Engine == CPU {
		s.spend(s.cpu[s.class].of(n, f.work.Bytes))
		f.finished = s.now
		s.policy.finishCPU(&f.choice, f.work, s.clock())
	} else {
		begin := s.now
		s.spend(s.blocked[s.class].of(n, f.work.Bytes) * 0.6)
		s.policy.block(&f.choice, time.Duration(s.now-begin))
		s.post(f)
	}
	s.flights = append(s.flights, f)
}

// post gives a chunk to the GPU.
func (s *simulation) post(f *simFlight) {
	for s.now >= s.pauseAt {
		if end := s.pauseAt + s.pause; s.now < end {
			s.linkFree = max(s.linkFree, end)
		}
		s.pauseAt += s.pauseEvery * (0.5 + s.slice.Float64())
	}
	n, size := len(f.packets), f.work.Bytes
	s.linkFree = max(s.linkFree, s.now) + s.link.of(n, size)/(1-s.others)
	f.passed = s.linkFree
	f.finished = s.linkFree + s.jitter(s.latency[s.class].of(n, size))
	if f.finished > s.pauseAt {
		f.finished += s.pause
	}
}

// backlog returns the worker's bytes that have not passed the link.
func (s *simulation) backlog() (n float64) {
	for _, f := range s.flights {
		if f.choice.Engine == GPU && f.passed > s.now {
			time := s.link.of(len(f.packets), f.work.Bytes) / (1 - s.others)
			n += float64(f.work.Bytes) * min(1, (f.passed-s.now)/time)
		}
	}
	return n
}

func (s *simulation) complete() {
	f := s.flights[0]
	s.flights = s.flights[1:]
	if f.choice.Engine == GPU {
		seen := s.clock()
		s.spend(s.blocked[s.class].of(len(f.packets), f.work.Bytes) * 0.4)
		s.policy.finishGPU(&f.choice, f.work, time.Duration(s.polled), seen, s.clock())
	}
	s.spend(simTransmit * float64(len(f.packets)))
	for _, p := range f.packets {
		if p.at >= s.from {
			s.sent++
			s.latencies = append(s.latencies, s.now-p.at)
		}
	}
}

func TestNthIsTheValueOfTheSortedIndex(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := 1; n < 200; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(rnd.IntN(n)) // with duplicates
		}
		sorted := slices.Sorted(slices.Values(values))
		for i := range sorted {
			if got := nth(slices.Clone(values), i); got != sorted[i] {
				t.Fatalf("value %d of %v: %v, want %v", i, values, got, sorted[i])
			}
		}
	}
}
