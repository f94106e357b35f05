package choice

import (
	"testing"
	"time"
)

// TestOverloadGoesToTheEngineThatDoesMore: of a GPU that other workers leave a part of, at 1.3 times the capacity of the
// better engine. The worker waits for the GPU, so only the rate shows how much the GPU does.
func TestOverloadGoesToTheEngineThatDoesMore(t *testing.T) {
	for _, others := range []float64{0.9, 0.95, 0.97, 0.99} {
		h, l := plainHost(), load{class: AEAD, bytes: 1408}
		h.others = others
		cpu, gpu := h.capacity(&l)
		best := max(cpu, gpu)
		l.rate = 1.3 * best
		if r := simulate(h, l, learned{New()}, 1500e6, 300e6); r.rate < 0.93*best {
			t.Errorf("others use %.2f of the GPU: %.2f Mpps, %.2f by the CPU alone, %.2f by the GPU alone", others, r.rate*1e3, cpu*1e3, gpu*1e3)
		}
	}
}

// TestWorkerWaitsForTheUsualEngineOnly: and not for a GPU that stands still.
func TestWorkerWaitsForTheUsualEngineOnly(t *testing.T) {
	c := New()
	if c.Waits(0, time.Second) {
		t.Error("waits for the GPU while the CPU is the usual engine")
	}
	c.traffic.usual = GPU
	choice := c.Choose(Work{Packets: 256, Bytes: 256 * 1408, Class: HMAC}, Situation{Now: time.Second})
	if choice.Engine != GPU || !c.Waits(0, time.Second) || !c.traffic.waiting {
		t.Errorf("engine %d, does not wait for it", choice.Engine)
	}
	if c.Waits(0, time.Second+100*time.Millisecond) {
		t.Error("waits for a GPU that stands still")
	}
	if c.Choose(work(1, Forward), Situation{Now: time.Second + time.Millisecond}); c.traffic.waiting {
		t.Error("waits on after the next chunk")
	}
}

// TestChunksOfAnyLengthCanSaturate: chunks that a limit of bytes or of time ends are full ones. With short full chunks of an
// idle GPU the CPU does not stay the usual engine.
func TestChunksOfAnyLengthCanSaturate(t *testing.T) {
	c, now := New(), time.Second
	for range 2000 {
		w := Work{Packets: 10, Bytes: 10 * 1408, Class: HMAC, Full: true}
		choice := c.Choose(w, Situation{Now: now, Idle: time.Second})
		if now += 60 * time.Microsecond; choice.Engine == CPU {
			c.FinishCPU(&choice, w.Class, now)
		} else {
			c.Block(&choice, 5*time.Microsecond)
			c.FinishGPU(&choice, w.Class, now-time.Microsecond, now, now)
		}
	}
	if !c.traffic.saturated || c.traffic.usual != GPU {
		t.Errorf("saturated: %v, usual engine %d", c.traffic.saturated, c.traffic.usual)
	}
}
