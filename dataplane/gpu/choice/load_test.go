package choice

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// chunks submits chunks of n packets at a rate in packets per second to the CPU, which needs each nanoseconds
// per packet. The worker is idle for the rest of the time.
func chunks(c *Chooser, from, to time.Duration, n int, rate, each float64) (now time.Duration) {
	idle := time.Duration(0)
	return chunksIdle(c, from, to, n, rate, each, &idle)
}

// chunksIdle is chunks of a worker that has been idle before.
func chunksIdle(c *Chooser, from, to time.Duration, n int, rate, each float64, idle *time.Duration) (now time.Duration) {
	for now = from; now < to; {
		period := time.Duration(float64(n) / rate * 1e9)
		busy := time.Duration(float64(n) * (each + 25))
		*idle += max(0, period-busy)
		at := Situation{Now: now, Idle: *idle, GPU: Parked}
		choice := c.Choose(Work{Packets: n, Bytes: 64 * n}, at)
		c.FinishCPU(&choice, Forward, now+time.Duration(float64(n)*each))
		now += max(period, busy)
	}
	return now
}

func TestLoadIsShareOfCoreThatTheCPUNeeds(t *testing.T) {
	for _, tt := range []struct {
		rate, each, want float64
		easy, wake       bool
	}{
		{1e6, 30, 0.055, true, false}, {4e6, 30, 0.22, true, false}, {10e6, 30, 0.55, false, false}, {16e6, 30, 0.88, false, true}, {3e6, 300, 0.975, false, true},
	} {
		c := New()
		now := chunks(c, time.Second, time.Second+500*time.Millisecond, 64, tt.rate, tt.each)
		if got := c.Load.Share(now); math.Abs(got-tt.want) > 0.15*tt.want || c.Load.Easy(now) != tt.easy || c.Load.MustWake(now) != tt.wake {
			t.Errorf("%.0f packets/s of %.0f ns: load %.3f, want %.3f; easy %v, wake %v", tt.rate, tt.each, got, tt.want, c.Load.Easy(now), c.Load.MustWake(now))
		}
	}
}

// A router with little traffic has chunks of one packet, and would be busy by their number.
func TestSmallChunksAreNoLoad(t *testing.T) {
	c := New()
	now := chunks(c, time.Second, time.Second+100*time.Millisecond, 1, 1e6, 300)
	if !c.Load.Easy(now) {
		t.Errorf("load %.2f of 1 million chunks of a packet per second", c.Load.Share(now))
	}
}

func TestRisingLoadIsSeenWithinMilliseconds(t *testing.T) {
	c := New()
	now := chunks(c, time.Second, time.Second+50*time.Millisecond, 4, 0.1e6, 30)
	if !c.Load.Easy(now) {
		t.Fatalf("load %.2f of 0.1 million packets per second", c.Load.Share(now))
	}
	end := chunks(c, now, now+2500*time.Microsecond, 256, 30e6, 30) // more than the CPU can do
	if !c.Load.MustWake(end) || c.Load.Easy(end) {
		t.Errorf("load %.2f, 2.5 ms after the start of overload", c.Load.Share(end))
	}
}

func TestFallingLoadBecomesEasy(t *testing.T) {
	c := New()
	now := chunks(c, time.Second, time.Second+500*time.Millisecond, 64, 10e6, 30)
	if c.Load.Easy(now) {
		t.Fatalf("load %.2f is easy", c.Load.Share(now))
	}
	if now = chunks(c, now, now+500*time.Millisecond, 64, 6e6, 30); !c.Load.Easy(now) {
		t.Errorf("load %.2f, mean %.3f, is not easy after 500 ms", c.Load.Share(now), c.Load.lasting.load())
	}
}

func TestLoadOfSilentWorkerFalls(t *testing.T) {
	c := New()
	now := chunks(c, time.Second, time.Second+500*time.Millisecond, 64, 14e6, 30)
	if c.Load.Easy(now) || !c.Load.Easy(now+time.Second) || c.Load.Share(now+time.Second) > 0.01 {
		t.Errorf("load %.3f, easy %v, after 1 s %v; %.3f after 1 s", c.Load.Share(now), c.Load.Easy(now), c.Load.Easy(now+time.Second), c.Load.Share(now+time.Second))
	}
}

func TestAccuracyForgetsOldChunks(t *testing.T) {
	var a, b Accuracy
	now := time.Second
	for range 10_000 {
		now += 100 * time.Microsecond
		a.record(10_000, 5_000, now)
	}
	for range 100_000 {
		now += 100 * time.Microsecond
		a.record(20_000, 10_000, now)
		b.record(10_000, 10_000, now)
	}
	var m Means
	a.AddTo(&m)
	if m.Predicted < 19_900 || m.Measured < 9_950 || math.Abs(m.Error-1) > 0.01 {
		t.Errorf("predicted %v, measured %v, error %.2f: want about 20 µs, 10 µs and 1", m.Predicted, m.Measured, m.Error)
	}
	b.AddTo(&m)
	if m.Predicted < 14_900 || m.Predicted > 15_100 || math.Abs(m.Error-0.5) > 0.02 {
		t.Errorf("of two workers: predicted %v, error %.2f, want 15 µs and 0.5", m.Predicted, m.Error)
	}
	var none Means
	new(Accuracy).AddTo(&none)
	if none != (Means{}) {
		t.Errorf("of no chunks: %+v", none)
	}
}

func TestLongChunkWakesAtOnce(t *testing.T) {
	c := New()
	at := Situation{Now: time.Second, GPU: Parked}
	if choice := c.Choose(Work{Packets: 256, Bytes: 256 * 1408, Class: HMAC}, at); !c.MustWake(&choice) {
		t.Error("a chunk that takes the CPU a millisecond does not wake the GPU")
	}
	if choice := c.Choose(Work{Packets: 256, Bytes: 256 * 64}, at); c.MustWake(&choice) {
		t.Error("a chunk that takes the CPU 8 µs wakes the GPU")
	}
}

// smallChunks submits chunks of 6 to 22 packets at a rate in packets per nanosecond, which take the worker fixed nanoseconds and
// small more per packet. If pause is not 0, the worker is preempted so long every 20 ms, and has a chunk of the packets that
// arrived meanwhile, which take it large nanoseconds each.
func smallChunks(c *Chooser, length time.Duration, rate, fixed, small, large float64, pause time.Duration) {
	rnd := rand.New(rand.NewPCG(1, 1))
	now, idle, paused := time.Second, time.Duration(0), time.Duration(0)
	submit := func(n int, took float64) {
		choice := c.Choose(Work{Packets: n, Bytes: 64 * n}, Situation{Now: now, Idle: idle, GPU: Parked})
		c.FinishCPU(&choice, Forward, now+time.Duration(took*0.6))
		now += time.Duration(took) // with ports
	}
	for end := now + length; now < end; {
		if pause > 0 && now-paused > 20*time.Millisecond {
			paused = now
			now, idle = now+pause, idle+pause
			n := int(float64(pause) * rate)
			submit(n, float64(n)*large)
		}
		n, before := 6+rnd.IntN(17), now
		submit(n, fixed+small*float64(n))
		if left := time.Duration(float64(n)/rate) - (now - before); left > 0 {
			now, idle = now+left, idle+left
		}
	}
}

// A packet of a small chunk takes the worker several times as long as one of a large chunk, because it waits for memory
// alone. On an H200 host, at 20 Mpps and with 7 workers, it took 340 ns.
func TestPacketsOfSmallChunksAreNoLoad(t *testing.T) {
	const rate, fixed, small, large = 2.86e-3, 1500, 150, 90
	c, never := New(), New()
	smallChunks(c, 3*time.Second, rate, fixed, small, large, 50*time.Microsecond)
	now := 4 * time.Second
	if share := c.Load.Share(now); share > 1.2*rate*large || !c.Load.Easy(now) {
		t.Errorf("load of %.2f, where packets in large chunks take %.2f of a core", share, rate*large)
	}
	// Without large chunks, the estimates count.
	smallChunks(never, 3*time.Second, rate, fixed, small, large, 0)
	if share := never.Load.Share(now); share < easyShare || never.Load.Easy(now) {
		t.Errorf("load of %.2f, where packets in small chunks take %.2f of a core, and there are no large ones", share, rate*small)
	}
	// As many packets as the worker can process: its chunks are full.
	full(c, now, now+10*time.Millisecond, 256, 55)
	if now += 10 * time.Millisecond; !c.Load.MustWake(now) {
		t.Errorf("load of %.2f of a worker that is never idle", c.Load.Share(now))
	}
}

// full submits full chunks of n packets, which take the worker each nanoseconds per packet, one after another.
func full(c *Chooser, from, to time.Duration, n int, each float64) {
	for now := from; now < to; now += time.Duration(float64(n) * each) {
		choice := c.Choose(Work{Packets: n, Bytes: 64 * n, Full: true}, Situation{Now: now, Idle: time.Second, GPU: Parked})
		c.FinishCPU(&choice, Forward, now+time.Duration(float64(n)*each*0.6))
	}
}

// Pauses let packets wait, of which the worker then has many at once. That is no reason to keep or to wake the GPU.
func TestPausesAreNoLoad(t *testing.T) {
	c := New()
	idle, most := time.Duration(0), 0.
	for now := time.Second; now < 4*time.Second; {
		for range 20 { // 20 ms
			now = chunksIdle(c, now, now+time.Millisecond, 64, 3.5e6, 60, &idle)
			if now < 2*time.Second {
				continue
			}
			if most = max(most, c.Load.Share(now)); c.Load.MustWake(now) || !c.Load.Easy(now) {
				t.Fatalf("load %.2f: easy %v, must wake %v", c.Load.Share(now), c.Load.Easy(now), c.Load.MustWake(now))
			}
		}
		now += 2 * time.Millisecond
		now = chunksIdle(c, now, now+800*time.Microsecond, 256, 1e9, 60, &idle) // as fast as possible
	}
	if most < easyShare {
		t.Errorf("load of up to %.2f: pauses do not show in it", most)
	}
}
