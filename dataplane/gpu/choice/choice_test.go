package choice

import (
	"math"
	"testing"
	"time"
)

// A chunk of these costs decides nothing but that the engines are far apart.
func work(n int, class Class) Work { return Work{Packets: n, Bytes: n * 1408, Class: class} }

func TestUnusableGPUGetsNoChunk(t *testing.T) {
	for state, reason := range map[State]Reason{Full: GPUFull, Parked: GPUParked, Out: GPUOut, Late: GPULate} {
		c, now := New(), time.Duration(0)
		for range 5000 { // many explorations
			now += 2 * time.Millisecond
			choice := c.Choose(work(256, HMAC), Situation{Now: now, GPU: state})
			if choice.Engine != CPU || choice.Reason != reason {
				t.Fatalf("state %d: engine %d for reason %d, want the CPU for %d", state, choice.Engine, choice.Reason, reason)
			}
			c.FinishCPU(&choice, HMAC, now+time.Millisecond)
		}
	}
}

func TestFirstChoicesFollowPriorCosts(t *testing.T) {
	for name, tt := range map[string]struct {
		w    Work
		want Engine
	}{
		"small plain":             {work(16, Forward), CPU},
		"16 with HMAC":            {work(16, HMAC), GPU},
		"16 of 64 bytes, AES-GCM": {Work{Packets: 16, Bytes: 16 * 64, Class: AEAD}, CPU},
		"large with AES-GCM":      {work(256, AEAD), GPU},
	} {
		c := New()
		if choice := c.Choose(tt.w, Situation{Now: time.Second}); choice.Engine != tt.want || choice.Reason != Sooner {
			t.Errorf("%s: engine %d for reason %d, want %d", name, choice.Engine, choice.Reason, tt.want)
		}
	}
}

// A chunk behind one on the GPU is not done before it: a CPU that is slower gains nothing from being free.
func TestChunkWaitsForEarlierOnesOfItsLane(t *testing.T) {
	c := New()
	at := Situation{Now: time.Second}
	if choice := c.Choose(work(256, HMAC), at); choice.Engine != GPU {
		t.Fatal("a large chunk with HMAC is the CPU's")
	}
	if until, _ := c.lanes[0].earlier(at.Now); until < 10_000 {
		t.Errorf("chunks of the lane are done in %.0f ns, although one is on the GPU", until)
	}
	if until, _ := c.lanes[1].earlier(at.Now); until != 0 {
		t.Errorf("chunks of another lane wait for %.0f ns", until)
	}
}

// The oldest chunk is late by far: the GPU has stalled, and further chunks would wait as well.
func TestStalledGPUGetsNoFurtherChunks(t *testing.T) {
	c := New()
	w := Work{Packets: 64, Bytes: 64 * 64, Class: AEAD}
	first := c.Choose(work(256, HMAC), Situation{Now: time.Second})
	late := Situation{Now: time.Second + 2*time.Millisecond}
	if choice := c.Choose(w, late); choice.Engine != CPU {
		t.Error("a stalled GPU gets a chunk that the CPU does in 20 µs")
	}
	c.FinishGPU(&first, HMAC, late.Now, late.Now, late.Now)
	if _, stalled := c.lanes[0].earlier(late.Now); stalled != 0 {
		t.Error("the GPU is stalled after it has finished the chunk")
	}
}

func TestAbandonedChunksDelayNobody(t *testing.T) {
	c := New()
	choice := c.Choose(work(256, HMAC), Situation{Now: time.Second})
	c.Abandon(&choice)
	if until, stalled := c.lanes[0].earlier(2 * time.Second); until != 0 || stalled != 0 {
		t.Errorf("%.0f ns of chunks that the GPU has lost, stalled for %.0f", until, stalled)
	}
}

// moderate is a load that a plain CPU carries, so that it is the better engine.
var moderate = load{class: AEAD, bytes: 64, rate: 0.9e-3}

func TestChoiceFollowsAnEngineThatBecomesSlow(t *testing.T) {
	const length, change, soon = 60e6, 20e6, 5e6
	h := plainHost()
	h.changeAt, h.change = change, func(h *host) { scale(&h.cpu, 6) }
	r := simulate(h, moderate, learned{New()}, length, 0)
	if before, after := r.onGPU(change/2, change), r.onGPU(change+soon, length); before > 0.02 || after < 0.9 {
		t.Errorf("the GPU has %.3f of the chunks before the CPU becomes slow, and %.3f from 5 ms after", before, after)
	}
	h = plainHost()
	scale(&h.cpu, 1.5)
	heavy := load{class: HMAC, bytes: 1408, rate: 0.09e-3}
	h.changeAt, h.change = change, func(h *host) { scale(&h.latency, 20) }
	r = simulate(h, heavy, learned{New()}, length, 0)
	if before, after := r.onGPU(change/2, change), r.onGPU(change+soon, length); before < 0.9 || after > 0.1 {
		t.Errorf("the GPU has %.3f of the chunks before it becomes slow, and %.3f from 5 ms after", before, after)
	}
}

// The CPU has become fast again, while the GPU had the chunks: exploration finds it.
func TestChoiceReturnsToAnEngineThatRecovers(t *testing.T) {
	h := plainHost()
	scale(&h.cpu, 6)
	h.changeAt, h.change = 20e6, func(h *host) { scale(&h.cpu, 1./6) }
	r := simulate(h, moderate, learned{New()}, 1000e6, 0)
	if before, after := r.onGPU(10e6, 20e6), r.onGPU(800e6, 1000e6); before < 0.9 || after > 0.05 {
		t.Errorf("the GPU has %.3f of the chunks while the CPU is slow, and %.3f long after", before, after)
	}
}

// A thread that is preempted for 3 ms, 50 times per second, takes part of the time, but is no slow CPU.
func TestOutliersDoNotChangeTheChoice(t *testing.T) {
	h := plainHost()
	h.preemptedEvery, h.preempted = 20e6, 3e6
	r := simulate(h, load{class: AEAD, bytes: 64, rate: 0.3e-3}, learned{New()}, 1000e6, 0)
	if gpu := r.onGPU(50e6, 1000e6); gpu > 0.02 {
		t.Errorf("the GPU has %.3f of the chunks", gpu)
	}
	r = simulate(h, load{class: HMAC, bytes: 1408, rate: 0.4e-3}, learned{New()}, 1000e6, 0)
	if gpu := r.onGPU(50e6, 1000e6); gpu < 0.95 {
		t.Errorf("the GPU has %.3f of the chunks that only it can carry", gpu)
	}
}

func TestExplorationLosesLittleTime(t *testing.T) {
	h := timeSlicedGPU()
	l := load{class: AEAD, bytes: 64, rate: 0.2e-3}
	alone, r := simulate(h, l, threshold(simMaxPackets), 8000e6, 1000e6), simulate(h, l, learned{New()}, 8000e6, 1000e6)
	if r.onGPU(1000e6, 8000e6) == 0 {
		t.Error("the GPU is never explored")
	}
	if lost := r.mean - alone.mean; lost > 3000 || r.p99 > 1.05*alone.p99 {
		t.Errorf("packets take %.0f ns (p99 %.0f), %.0f (%.0f) without exploration", r.mean, r.p99, alone.mean, alone.p99)
	}
}

func TestBurstsGoToTheEngineThatFinishesThemFirst(t *testing.T) {
	for _, h := range []host{plainHost(), slowCPU()} {
		l := load{class: HMAC, bytes: 1408, rate: 0.02e-3, burst: 64}
		best := math.Inf(1)
		for _, p := range thresholds {
			best = min(best, simulate(h, l, p, 100e6, 20e6).mean)
		}
		if r := simulate(h, l, learned{New()}, 100e6, 20e6); r.mean > 1.05*best {
			t.Errorf("%s: packets take %.0f ns, %.0f by the best threshold", h.name, r.mean, best)
		}
	}
}

func TestChunkThatWouldWaitForTheGPUIsTheGPUs(t *testing.T) {
	c := New()
	at := Situation{Now: time.Second, Behind: true}
	if choice := c.Choose(work(1, Forward), at); choice.Engine != GPU || choice.Reason != Sooner {
		t.Errorf("engine %d for reason %d", choice.Engine, choice.Reason)
	}
	at.GPU = Full
	if choice := c.Choose(work(1, Forward), at); choice.Engine != CPU || choice.Reason != GPUFull {
		t.Errorf("with a full GPU: engine %d for reason %d", choice.Engine, choice.Reason)
	}
}
