package choice

import (
	"math"
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
	if c.Wait(0, time.Second) {
		t.Error("waits for the GPU while the CPU is the usual engine")
	}
	c.traffic.usual = GPU
	choice := c.Choose(Work{Packets: 256, Bytes: 256 * 1408, Class: HMAC}, Situation{Now: time.Second})
	if choice.Engine != GPU || !c.Wait(0, time.Second) || !c.traffic.waiting {
		t.Errorf("engine %d, does not wait for it", choice.Engine)
	}
	if c.Wait(0, time.Second+100*time.Millisecond) {
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

// TestIdleTimeIsNoWait: a worker that found the GPU full for a moment, and then had nothing to submit, has not waited.
func TestIdleTimeIsNoWait(t *testing.T) {
	c, now, idle := New(), time.Second, time.Duration(0)
	for i := range 1000 {
		c.traffic.usual = GPU
		choice := c.Choose(Work{Packets: 256, Bytes: 256 * 1408, Class: HMAC, Full: true}, Situation{Now: now, Idle: idle})
		c.Block(&choice, 50*time.Microsecond)
		c.Wait(0, now+10*time.Microsecond)
		c.EndWait(now + 100*time.Microsecond)
		if choice.Engine == GPU {
			c.FinishGPU(&choice, HMAC, now+100*time.Microsecond, now+110*time.Microsecond, now+120*time.Microsecond)
		} else {
			c.FinishCPU(&choice, HMAC, now+time.Millisecond)
		}
		now, idle = now+2*time.Millisecond, idle+1900*time.Microsecond
		if c.traffic.saturated || c.traffic.limit.waited > 0 {
			t.Fatalf("chunk %d: saturated %v, %+v", i, c.traffic.saturated, c.traffic.limit)
		}
	}
}

// TestWaitAfterTheChoiceCountsAsOneBeforeIt: it is a wait, and no cost of the chunk, of the worker or of its ports, whether the GPU then has a slot
// for the chunk, or the CPU executes it.
func TestWaitAfterTheChoiceCountsAsOneBeforeIt(t *testing.T) {
	const wait = 60 * time.Microsecond
	x := terms{1, 256, 256 * 1408, 0}
	run := func(after, vain bool) (figures map[string]float64) {
		c, now, idle := New(), time.Second, time.Duration(0)
		for range 2000 {
			if c.traffic.usual = GPU; !after {
				c.Wait(0, now)
				now, idle = now+wait, idle+wait
			}
			choice := c.Choose(Work{Packets: 256, Bytes: 256 * 1408, Class: HMAC, Full: true}, Situation{Now: now, Idle: idle, Behind: true})
			if c.traffic.usual = GPU; after {
				if !c.WaitChosen(&choice, now) {
					t.Fatal("does not wait")
				}
				now += wait
				c.EndWaitChosen(&choice, now)
			}
			if vain {
				c.Refuse(&choice)
				now += 20 * time.Microsecond
				c.FinishCPU(&choice, HMAC, now)
			} else {
				now += 10 * time.Microsecond
				c.Block(&choice, now-choice.Submitted())
				now, idle = now+10*time.Microsecond, idle+10*time.Microsecond
				c.FinishGPU(&choice, HMAC, now-time.Microsecond, now, now+5*time.Microsecond)
				now += 5 * time.Microsecond
			}
			now += 5 * time.Microsecond // ports
		}
		return map[string]float64{
			"CPU": c.engine[CPU][HMAC].cost(&x), "GPU": c.engine[GPU][HMAC].cost(&x), "host": c.host[HMAC].cost(&x), "ports": c.traffic.port.cost(&x),
			"large chunks": c.traffic.large.factor[HMAC], "busy": c.traffic.busy, "load": c.Load.Share(now),
			"windows with waits": c.traffic.limit.waited, "their time": c.traffic.limit.nanoseconds,
		}
	}
	for _, vain := range []bool{false, true} {
		after := run(true, vain)
		for what, want := range run(false, vain) {
			if got := after[what]; math.Abs(got-want) > 0.01*want {
				t.Errorf("in vain %v: %s: %g, want %g", vain, what, got, want)
			}
		}
	}
}

// TestChosenChunkDoesNotDelayItself: it waits for a slot on the conditions of earlier chunks of its lane, and if it is refused, the lane is as before.
func TestChosenChunkDoesNotDelayItself(t *testing.T) {
	c, now := New(), time.Second
	choose := func(n int) Choice {
		choice := c.Choose(work(n, AEAD), Situation{Now: now, Behind: true})
		c.traffic.usual = GPU
		return choice
	}
	choice := choose(1)
	if c.traffic.usual = CPU; c.WaitChosen(&choice, now) || c.Waiting() {
		t.Error("waits for the GPU while the CPU is the usual engine")
	}
	c.Refuse(&choice)
	choice = choose(1)
	for range 6 {
		if !c.WaitChosen(&choice, now) {
			t.Fatalf("does not wait for more than %v", now-choice.Submitted())
		}
		now += 10 * time.Microsecond
	}
	if c.EndWaitChosen(&choice, now); choice.Submitted() != now || c.Waiting() {
		t.Errorf("counts as submitted %v before the end of the wait; waits on: %v", now-choice.Submitted(), c.Waiting())
	}
	if until, _ := c.lanes[0].earlier(now); time.Duration(until) != time.Duration(choice.predicted) {
		t.Errorf("the lane's chunks end in %.0f ns, want %.0f", until, choice.predicted)
	}
	now += 100 * time.Millisecond // on the GPU
	lane := c.lanes[0]
	if choice = choose(256); c.WaitChosen(&choice, now) || c.Waiting() {
		t.Error("waits for a GPU that stands still")
	}
	if c.Refuse(&choice); c.lanes[0] != lane || choice.Engine != CPU {
		t.Errorf("refused: engine %d, lane %+v, before %+v", choice.Engine, c.lanes[0], lane)
	}
}

// TestOnlyWaitsShowWhatTheGPUDoes: after a low load, an overload that the GPU processes faster than the CPU would.
func TestOnlyWaitsShowWhatTheGPUDoes(t *testing.T) {
	var l limit
	const cpu = 1000 // nanoseconds per packet
	for range 200 {
		l.observeGPU(1e6, 300, false)
	}
	for i := range 200 {
		if l.observeGPU(1e6, 1500, true); l.exceeds(cpu, time.Second) {
			t.Fatalf("window %d: the CPU seems to do more: %+v", i, l)
		}
	}
	for i := 0; !l.exceeds(cpu, time.Second); i++ {
		if l.observeGPU(1e6, 700, true); i > 200 {
			t.Fatalf("the GPU seems to do more: %+v", l)
		}
	}
	if !l.exceeds(cpu, time.Second+limitHold-1) || l.exceeds(cpu, time.Second+limitHold) || l.waited != 0 {
		t.Errorf("the end of the hold: %+v", l)
	}
}

// TestCPUMustProveThatItDoesMore: it becomes the usual engine for a while, and not soon again if it does less than the GPU did.
func TestCPUMustProveThatItDoesMore(t *testing.T) {
	const cpu = 400 // predicted nanoseconds per packet
	for _, real := range []float64{420, 500} {
		var l limit
		now := time.Second
		wait := func() (windows int) {
			for ; windows < 100 && !l.exceeds(cpu, now); windows++ {
				l.observeGPU(1e6, 1e6/440, true)
				now += time.Millisecond
			}
			return windows
		}
		if n := wait(); n > 50 {
			t.Fatalf("the CPU is not tried: %+v", l)
		}
		held := 0
		for ; held < 1000 && l.exceeds(cpu, now); held++ {
			l.observeCPU(1e6, 1e6/real, now)
			now += time.Millisecond
		}
		again := wait()
		if real < 440 && (held < 500 || again > 50) || real > 440 && (held > 20 || again < 100) {
			t.Errorf("%.0f ns per packet: the CPU stays for %d windows, and is tried again after %d", real, held, again)
		}
		if now += limitRetry; real > 440 && wait() > 50 {
			t.Errorf("the CPU is not tried again: %+v", l)
		}
	}
}
