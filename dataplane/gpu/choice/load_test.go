package choice

import (
	"math"
	"testing"
	"time"
)

// chunks submits chunks of n packets at a rate in packets per second to the CPU, which needs each nanoseconds
// per packet. The worker is idle for the rest of the time.
func chunks(c *Chooser, from, to time.Duration, n int, rate, each float64) (now time.Duration) {
	now, idle := from, time.Duration(0)
	for now < to {
		period := time.Duration(float64(n) / rate * 1e9)
		busy := time.Duration(float64(n) * (each + 25))
		idle += max(0, period-busy)
		at := Situation{Now: now, Idle: idle, GPU: Parked}
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
		{1e6, 30, 0.055, true, false}, {4e6, 30, 0.22, true, false}, {8e6, 30, 0.44, false, false}, {14e6, 30, 0.77, false, true}, {3e6, 300, 0.975, false, true},
	} {
		c := New()
		now := chunks(c, time.Second, time.Second+200*time.Millisecond, 64, tt.rate, tt.each)
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
	if !c.Load.MustWake(end) {
		t.Errorf("load %.2f, 2.5 ms after the start of overload", c.Load.Share(end))
	}
}

func TestLoadOfSilentWorkerFalls(t *testing.T) {
	c := New()
	now := chunks(c, time.Second, time.Second+20*time.Millisecond, 64, 14e6, 30)
	if c.Load.Easy(now) || !c.Load.Easy(now+10*time.Millisecond) || c.Load.Share(now+time.Second) > 0.01 {
		t.Errorf("load %.3f, %.3f after 10 ms, %.3f after 1 s", c.Load.Share(now), c.Load.Share(now+10*time.Millisecond), c.Load.Share(now+time.Second))
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
