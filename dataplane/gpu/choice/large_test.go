package choice

import (
	"math"
	"testing"
	"time"
)

// worker is a worker that submits chunks to the CPU.
type worker struct {
	*Chooser
	now, idle time.Duration
}

func newWorker() *worker { return &worker{New(), time.Second, time.Millisecond} }

// submit processes a chunk of n packets of a size in bytes, which takes some nanoseconds per packet in the engine and then in the ports.
func (w *worker) submit(lane uint8, class Class, n, size int, full bool, engine, ports float64) {
	choice := w.Choose(Work{Packets: n, Bytes: size * n, Class: class, Full: full}, Situation{Now: w.now, Idle: w.idle, Lane: lane, GPU: Parked})
	w.now += time.Duration(float64(n) * engine)
	w.FinishCPU(&choice, class, w.now)
	w.now += time.Duration(float64(n) * ports)
}

func (w *worker) rest(d time.Duration) { w.now, w.idle = w.now+d, w.idle+d }

// factor returns what large chunks of a class have taken, as nanoseconds of a packet.
func (w *worker) factor(class Class, size float64) float64 {
	return w.traffic.large.factor[class] * priorMarginal(class, 1, size)
}

func TestLargeChunksAreMeasuredWithoutIdleTime(t *testing.T) {
	w := newWorker()
	for range 100 {
		w.submit(0, Forward, 256, 64, false, 40, 30)
		w.rest(50 * time.Microsecond)
	}
	if got := w.factor(Forward, 64); math.Abs(got-70) > 1 {
		t.Errorf("%.1f ns per packet, want 70", got)
	}
	w.now += 10 * time.Millisecond // the worker is preempted
	w.submit(0, Forward, 4, 64, false, 40, 30)
	if got := w.factor(Forward, 64); got > 70*(1+largeWeight)+1 {
		t.Errorf("%.1f ns per packet after one pause within a chunk, where 70 were usual", got)
	}
}

// A pause in the first large chunk makes packets no dearer than they are in small ones.
func TestPauseInLargeChunkIsNoLoad(t *testing.T) {
	w := newWorker()
	for i := range 1000 {
		n := 16
		if i == 500 {
			n = 256
		}
		w.submit(0, Forward, n, 64, false, 40, 30)
		if i == 500 {
			w.now += 5 * time.Millisecond
		}
		w.rest(time.Duration(n) * 140) // a third of a core
	}
	if share := w.Load.Share(w.now); share > 0.4 || !w.Load.Easy(w.now) {
		t.Errorf("load %.2f, easy %v, where packets take a third of a core", share, w.Load.Easy(w.now))
	}
}

// Packets take longer, and chunks are too short to be large: what the large ones took holds for 30 s at most. Full chunks
// count from 32 packets on, so the load of a worker that is never idle is known at once.
func TestOldFactorIsForgotten(t *testing.T) {
	for _, load := range []float64{0.5, 0.9} {
		w := newWorker()
		for range 30 {
			w.submit(0, AEAD, 256, 128, false, 250, 50)
			w.rest(time.Millisecond)
		}
		for end := w.now + 32*time.Second; w.now < end; {
			began := w.now
			w.submit(0, AEAD, 66, 1400, false, 1980, 60)
			w.rest(time.Duration(float64(w.now-began) * (1/load - 1)))
		}
		if share := w.Load.Share(w.now); math.Abs(share-load) > 0.1*load || w.Load.Easy(w.now) {
			t.Errorf("load %.2f, easy %v, where packets take %.2f of a core", share, w.Load.Easy(w.now), load)
		}
	}
	w := newWorker()
	w.submit(0, AEAD, 256, 128, false, 250, 50)
	for range 40 {
		w.submit(0, AEAD, 66, 1400, true, 1980, 60)
	}
	if got := w.factor(AEAD, 1400); math.Abs(got-2040) > 20 {
		t.Errorf("%.0f ns per packet after full chunks, want 2040", got)
	}
}

// A worker submits chunks of all lanes before it transmits their packets, so the chunk of a later lane does not end the measurement.
func TestLargeChunkOfAnEarlierLaneIncludesItsPorts(t *testing.T) {
	w, woken := newWorker(), time.Duration(0)
	for end := w.now + 100*time.Millisecond; w.now < end; {
		w.submit(0, Forward, 1024, 64, true, 40, 0)
		w.submit(1, Forward, 4, 64, false, 120, 0)
		w.now += 1028 * 50 // ports of both
		if woken == 0 && w.Load.MustWake(w.now) {
			woken = w.now - time.Second
		}
	}
	if got := w.factor(Forward, 64); got < 89 || got > 93 {
		t.Errorf("%.1f ns per packet, want 90", got)
	}
	if woken == 0 || woken > 4*time.Millisecond {
		t.Errorf("a worker that is never idle must wake the GPU after %v", woken)
	}
}

// A large chunk of the first lane is measured although that lane then has no packets, and those of later lanes do not count for it.
func TestIterationEndsWithoutFurtherPacketsOfItsLane(t *testing.T) {
	w := newWorker()
	w.submit(0, Forward, 256, 64, false, 40, 30)
	w.submit(1, AEAD, 10, 64, false, 600, 300)
	for range 1000 {
		w.submit(1, AEAD, 10, 64, false, 600, 300)
		w.rest(20 * time.Microsecond)
	}
	if got := w.factor(Forward, 64); got < 60 || got > 90 {
		t.Errorf("%.1f ns per packet, want about 70", got)
	}
}

// The load is that of all lanes and classes, whichever lane's chunk ends the window, and the class that takes most time decides on the engine.
func TestLoadOfTunnelsBesidePlainPackets(t *testing.T) {
	for _, load := range []float64{0.5, 0.9} {
		w := newWorker()
		for end := w.now + 2*time.Second; w.now < end; {
			began := w.now
			w.submit(0, Forward, 4, 64, false, 40, 30)
			w.submit(1, AEAD, 100, 64, false, 900, 0)
			w.now += 104 * 60
			w.rest(time.Duration(float64(w.now-began) * (1/load - 1)))
		}
		if share := w.Load.Share(w.now); math.Abs(share-load) > 0.15*load || w.Load.Easy(w.now) || w.Load.MustWake(w.now) != (load > wakeShare) {
			t.Errorf("load %.2f, easy %v, must wake %v, where packets take %.2f of a core", share, w.Load.Easy(w.now), w.Load.MustWake(w.now), load)
		}
		if w.traffic.usual != GPU {
			t.Errorf("load %.2f: the usual engine is the CPU, which takes several times as long for tunnels", load)
		}
	}
}

// While the GPU has chunks of the worker, it spends time on these, too.
func TestLargeChunksBesideTheGPUAreNotMeasured(t *testing.T) {
	w := newWorker()
	gpu := w.Choose(Work{Packets: 1000, Bytes: 64000}, Situation{Now: w.now, Idle: w.idle})
	if gpu.Engine != GPU {
		t.Fatal("a long chunk is not the GPU's")
	}
	w.submit(0, Forward, 256, 64, false, 40, 30)
	w.submit(0, Forward, 256, 64, false, 40, 30)
	if w.traffic.large.factor[Forward] != 0 {
		t.Error("measured")
	}
	w.FinishGPU(&gpu, Forward, 0, w.now, w.now)
	w.submit(0, Forward, 256, 64, false, 40, 30)
	w.submit(0, Forward, 256, 64, false, 40, 30)
	if w.traffic.large.factor[Forward] == 0 {
		t.Error("not measured without chunks on the GPU")
	}
}

// Bursts in which the worker is saturated wake the GPU at the second one, though there are fewer packets on average than the CPU can process.
func TestBurstsWake(t *testing.T) {
	for _, burst := range []time.Duration{1100 * time.Microsecond, 1700 * time.Microsecond} {
		w, woken := newWorker(), time.Duration(0)
		for end := w.now + 100*time.Millisecond; w.now < end && woken == 0; w.rest(9 * time.Millisecond) {
			for last := w.now + burst; w.now < last; {
				w.submit(0, Forward, 256, 64, true, 30, 30)
			}
			w.rest(100 * time.Microsecond)
			w.submit(0, Forward, 4, 64, false, 30, 30)
			if w.Load.MustWake(w.now) {
				woken = w.now - time.Second
			}
		}
		if woken == 0 || woken > 30*time.Millisecond {
			t.Errorf("bursts of %v every 10 ms wake after %v (0: never)", burst, woken)
		}
	}
}
