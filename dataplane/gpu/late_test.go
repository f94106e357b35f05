package gpu

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
)

// driver submits chunks to an engine and completes them in order, as a worker does.
type driver struct {
	t         *testing.T
	e         *Engine
	rnd       *rand.Rand
	free, out []*batch.Chunk
	every     time.Duration // between two chunks
	least     int           // chunks to submit, on a busy machine even after the time
	lost      int           // chunks
	longest   time.Duration // from the submission of a chunk to its completion
}

func newDriver(t *testing.T, e *Engine, chunks []*batch.Chunk) *driver {
	return &driver{t: t, e: e, rnd: rand.New(rand.NewPCG(17, 5)), free: chunks}
}

// run submits for a time, and completes all chunks.
func (d *driver) run(submit time.Duration) {
	var last time.Time
	for end := time.Now().Add(submit); time.Now().Before(end) || d.least > 0 || len(d.out) > 0; time.Sleep(20 * time.Microsecond) {
		if now := time.Now(); len(d.free) > 0 && (now.Before(end) || d.least > 0) && now.Sub(last) >= d.every {
			d.least--
			c := d.free[0]
			last = now
			c.N = 1 + d.rnd.IntN(50)
			for i := range c.N {
				c.In[i] = batch.Frame{Addr: uint32(i)*128 + 2, Len: 60}
			}
			c.Submitted = batch.Clock()
			d.e.Submit(c)
			d.free, d.out = d.free[1:], append(d.out, c)
		}
		for len(d.out) > 0 && d.e.Done(d.out[0]) {
			c := d.out[0]
			d.longest = max(d.longest, batch.Clock()-c.Submitted)
			if c.Out[c.N-1].Verdict == batch.Lost {
				d.lost++
			}
			d.free, d.out = append(d.free, c), d.out[1:]
		}
		if time.Since(end) > 10*time.Second {
			d.t.Fatalf("%d chunks are not done", len(d.out))
		}
	}
}

// hangAll lets all blocks hang, as in another process's time slices.
func hangAll(blocks []*block, hang bool) {
	for _, b := range blocks {
		b.hang.Store(hang)
	}
}

// TestTimeSlicesLoseNothing: chunks on the GPU wait for 50 ms, later ones go to the CPU, and nothing times
// out. Afterwards the worker uses the GPU again, at once.
func TestTimeSlicesLoseNothing(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, 20*time.Millisecond)
	e.limit = sharedLimit
	d := newDriver(t, e, chunks)
	d.every = 4 * time.Millisecond
	for range 3 {
		hangAll(blocks, true)
		time.AfterFunc(50*time.Millisecond, func() { hangAll(blocks, false) })
		d.run(60 * time.Millisecond)
		before := e.executed[ExecutedOnGPU].Load()
		if d.run(time.Millisecond); e.executed[ExecutedOnGPU].Load() <= before {
			t.Error("the worker does not return to the GPU")
		}
	}
	if d.lost != 0 || e.outage.timeouts.Load() != 0 || e.Name() != "gpu" || e.executed[ExecutedOnCPU].Load() != 0 {
		t.Errorf("%d chunks lost, %d timeouts, engine %s", d.lost, e.outage.timeouts.Load(), e.Name())
	}
	if n := e.executed[GPULate].Load(); n == 0 || d.longest < 40*time.Millisecond {
		t.Errorf("%d chunks on the CPU while another was late, longest delay %v: the GPU did not hang", n, d.longest)
	}
}

// TestSilentGPUTimesOutAtTheLimit: only the chunks that were on the GPU are lost. It recovers as from other
// timeouts.
func TestSilentGPUTimesOutAtTheLimit(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, 20*time.Millisecond)
	e.limit = 200 * time.Millisecond
	d := newDriver(t, e, chunks)
	d.every, d.least = 4*time.Millisecond, len(chunks)
	hangAll(blocks, true)
	start := time.Now()
	d.run(100 * time.Millisecond)
	took := time.Since(start)
	if o := e.outage.current.Load(); o == nil || !strings.Contains(o.Why.Error(), "packets not finished within 200ms") || took < 190*time.Millisecond {
		t.Errorf("after %v: %+v", took, o)
	}
	onCPU := e.executed[GPULate].Load() + e.executed[ExecutedOnCPU].Load() // late, or out
	if d.lost == 0 || d.lost > 3 || int(onCPU) < len(chunks)-3 {
		t.Errorf("%d chunks lost, %d of %d on the CPU", d.lost, onCPU, len(chunks))
	}
	hangAll(blocks, false)
	for begin := time.Now(); e.Name() != "gpu"; d.run(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("it does not recover")
		}
	}
	if e.outage.timeouts.Load() != 1 || e.outage.recoveries.Load() != 1 {
		t.Errorf("%d timeouts, %d recoveries", e.outage.timeouts.Load(), e.outage.recoveries.Load())
	}
}

// twoWorkers returns drivers of two workers of a device.
func twoWorkers(t *testing.T, timeout time.Duration) (workers [2]*driver, blocks [2][]*block) {
	t.Helper()
	shared := &deviceState{}
	for i := range workers {
		e, b, chunks := newRig(t, 8, timeout)
		e.limit, e.state = time.Minute, shared
		e.checker.state = shared
		workers[i], blocks[i] = newDriver(t, e, chunks), b
	}
	return workers, blocks
}

// TestHungBlockTimesOutWhileTheGPUWorks: long before the limit, when the GPU has finished the chunks of
// another worker for as long as the timeout.
func TestHungBlockTimesOutWhileTheGPUWorks(t *testing.T) {
	workers, blocks := twoWorkers(t, 20*time.Millisecond)
	hangAll(blocks[0], true)
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			workers[1].run(time.Millisecond)
		}
	}()
	workers[0].run(time.Millisecond)
	stop.Store(true)
	<-ended
	if o := workers[0].e.outage.current.Load(); o == nil || !strings.Contains(o.Why.Error(), "not finished while the GPU worked for 20ms on others") {
		t.Errorf("the worker of the hung block: %+v", o)
	}
	if n := workers[1].e.outage.timeouts.Load(); n != 0 || workers[1].lost != 0 {
		t.Errorf("the other worker: %d timeouts, %d chunks lost", n, workers[1].lost)
	}
}

// TestOverdueChunkHasTimeAfterATimeSlice: the GPU finishes another worker's chunks first when it returns,
// and then the overdue one.
func TestOverdueChunkHasTimeAfterATimeSlice(t *testing.T) {
	workers, blocks := twoWorkers(t, 100*time.Millisecond)
	hangAll(blocks[0], true)
	hangAll(blocks[1], true)
	time.AfterFunc(150*time.Millisecond, func() { hangAll(blocks[1], false) })
	time.AfterFunc(160*time.Millisecond, func() { hangAll(blocks[0], false) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		workers[1].run(170 * time.Millisecond)
	}()
	workers[0].run(170 * time.Millisecond)
	<-ended
	for i, w := range workers {
		if n := w.e.outage.timeouts.Load(); n != 0 || w.lost != 0 {
			t.Errorf("worker %d: %d timeouts, %d chunks lost: %v", i, n, w.lost, w.e.outage.current.Load())
		}
	}
}

func TestLimitFollowsSharing(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		options Options
		mode    cuda.SharingMode
		want    time.Duration
	}{
		{Options{Timeout: 20 * ms}, cuda.Exclusive, 20 * ms},
		{Options{Timeout: 20 * ms}, cuda.TimeSlicing, time.Second},
		{Options{Timeout: 20 * ms}, cuda.MPS, time.Second},
		{Options{Timeout: 20 * ms}, cuda.MIG, time.Second},
		{Options{Timeout: time.Minute}, cuda.TimeSlicing, time.Minute},
		{Options{Timeout: 20 * ms, Limit: 100 * ms}, cuda.TimeSlicing, 100 * ms},
		{Options{Timeout: 20 * ms, Limit: 100 * ms}, cuda.Exclusive, 100 * ms},
	} {
		if got := tt.options.limitOf(cuda.Sharing{Mode: tt.mode}); got != tt.want {
			t.Errorf("%v and %v, %s: %v, want %v", tt.options.Timeout, tt.options.Limit, tt.mode, got, tt.want)
		}
	}
}

// TestFaultEndsTheWaitForALateChunk: the driver reports a kernel's fault long before the limit.
func TestFaultEndsTheWaitForALateChunk(t *testing.T) {
	r := newKernelRig(t, 2, Options{Timeout: 20 * time.Millisecond, Limit: time.Minute})
	chunks := batch.NewChunks(2, maxChunk)
	for i, e := range r.engines {
		if by := execute(t, e, chunks[i]); by != "gpu" {
			t.Fatalf("executed by %s", by)
		}
	}
	r.setHang(true)
	fault := time.AfterFunc(30*time.Millisecond, func() { atomic.StoreUint32(&r.fake.faulted, 1) })
	defer fault.Stop()
	start := time.Now()
	if by := execute(t, r.engines[0], chunks[0]); by != "lost" || time.Since(start) > 10*time.Second {
		t.Errorf("after %v: executed by %s", time.Since(start), by)
	}
	if by := execute(t, r.engines[1], chunks[1]); by != "cpu" {
		t.Errorf("the other worker: executed by %s", by)
	}
	if n := r.kernel.state.late.Load(); n != 0 || !cuda.Sticky(r.state.err()) {
		t.Errorf("%d workers wait; the device: %v", n, r.state.err())
	}
	atomic.StoreUint32(&r.fake.faulted, 0)
	r.setHang(false)
}
