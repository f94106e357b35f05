package gpu

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
)

// kernelRig is a device of the fake driver. Blocks in Go run while its kernel does.
type kernelRig struct {
	*Device
	fake *fake
	hang atomic.Bool // of the blocks

	launched atomic.Uint64 // the last launch whose blocks are in blocks

	mu     sync.Mutex
	blocks []*block
	tiles  atomic.Int64 // of all blocks so far
}

// launchBlocks starts the blocks of each launch, until the test ends.
func (r *kernelRig) launchBlocks(umem []byte, stopping chan struct{}) {
	for launched := uint64(0); ; time.Sleep(10 * time.Microsecond) {
		select {
		case <-stopping:
			return
		default:
		}
		n := r.kernel.wakes.Load()
		if n == launched {
			continue
		}
		launched = n
		blocks, ended := runBlocks(r.kernel.mailbox, umem)
		r.mu.Lock()
		r.blocks = blocks
		r.mu.Unlock()
		for _, b := range blocks {
			b.hang.Store(r.hang.Load())
		}
		r.launched.Store(n)
		go func() {
			ended.Wait()
			for _, b := range blocks {
				r.tiles.Add(b.chunks.Load())
			}
			atomic.StoreUint32(&r.fake.running[0], 0)
		}()
	}
}

// setHang makes the blocks of the last launch hang, or go on.
func (r *kernelRig) setHang(hang bool) {
	for r.launched.Load() != r.kernel.wakes.Load() {
		time.Sleep(10 * time.Microsecond)
	}
	r.hang.Store(hang)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.blocks {
		b.hang.Store(hang)
	}
}

func newKernelRig(t *testing.T, workers int, o Options) *kernelRig {
	t.Helper()
	f, library := newFake(t)
	f.busy = 1
	base, mem := newBase(t), mapMemory(t, 1<<20)
	o.Library = library
	r := &kernelRig{Device: got(openFirst(base, o))(t), fake: f}
	stopping := make(chan struct{})
	var launcher sync.WaitGroup
	launcher.Go(func() { r.launchBlocks(mem, stopping) })
	for range workers {
		if _, err := r.NewEngine(mem, 8, maxChunk, cpu.New(base, mem, make([]bool, 16))); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil || f.held != 0 {
			t.Errorf("close: %v, %d resources left", err, f.held)
		}
		close(stopping)
		launcher.Wait()
	})
	return r
}

// TestKernelParksAndWakes: after Options.Park without a chunk on the GPU it ends. The CPU executes chunks
// meanwhile, and the first of them wakes it.
func TestKernelParksAndWakes(t *testing.T) {
	const after = 50 * time.Millisecond
	r := newKernelRig(t, 2, Options{Park: after, Timeout: time.Minute})
	c := batch.NewChunks(1, maxChunk)[0]
	if s := r.State(); !s.Parked || s.Wakes != 0 || s.Awake != 0 {
		t.Errorf("before the first chunk: %+v", s)
	}
	for round := uint64(1); round <= 3; round++ {
		if by := execute(t, r.engines[0], c); by != "cpu" {
			t.Errorf("round %d: a chunk for a parked kernel is executed by the %s", round, by)
		}
		asked := time.Now()
		for r.State().Parked {
			runtime.Gosched()
		}
		if took := time.Since(asked); took > 100*time.Millisecond {
			t.Errorf("round %d: the kernel runs after %v", round, took)
		}
		for i, e := range r.engines {
			if by := execute(t, e, c); by != "gpu" {
				t.Errorf("round %d, worker %d: executed by the %s", round, i, by)
			}
		}
		used := time.Now()
		for start := time.Now(); !r.State().Parked || atomic.LoadUint32(&r.fake.running[0]) != 0; time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatal("the kernel does not park")
			}
		}
		if idle := time.Since(used); idle < after-2*controlInterval {
			t.Errorf("round %d: parked after %v, want %v", round, idle, after)
		}
		if s := r.State(); s.Wakes != round || s.KernelParked != round || s.ByGPU != 2*round {
			t.Errorf("round %d: %+v", round, s)
		}
	}
}

// TestParkingUnderLoad: no packet is lost, and the chunks of each worker are executed by one engine or the
// other, whatever the kernel does.
func TestParkingUnderLoad(t *testing.T) {
	r := newKernelRig(t, 4, Options{Park: time.Hour, Timeout: time.Minute})
	stopping, parks := atomic.Bool{}, 0
	var workers sync.WaitGroup
	for i, e := range r.engines {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			chunks := batch.NewChunks(4, maxChunk)
			for !stopping.Load() {
				for _, c := range chunks {
					c.N = 1 + rnd.IntN(maxChunk)
					for k := range c.N {
						c.In[k] = batch.Frame{Addr: 2, Len: 60} // empty, which the CPU drops
					}
					e.Submit(c)
				}
				for _, c := range chunks {
					for !e.Done(c) {
						runtime.Gosched()
					}
					for k, v := range c.Out[:c.N] {
						if want := c.Out[0].Verdict; v.Verdict != want || want != batch.Forward(1) && want != batch.Drop(batch.EtherType) {
							t.Errorf("packet %d of %d: %v, the first has %v", k, c.N, v.Verdict, want)
							return
						}
					}
				}
			}
		})
	}
	for start := time.Now(); parks < 20 && time.Since(start) < 20*time.Second; time.Sleep(2 * time.Millisecond) {
		if r.kernel.state.parked.Load() { // until a worker wakes it
			continue
		}
		if parked, err := r.kernel.park(time.Second); err != nil {
			t.Fatal(err)
		} else if parked {
			parks++
		}
	}
	stopping.Store(true)
	workers.Wait()
	s := r.State()
	if parks < 20 || s.ByGPU < 100 || s.KernelParked < 100 || s.Lost+s.InFlight != 0 || s.Timeouts != 0 || s.ByCPU != 0 {
		t.Errorf("parked %d times: %+v", parks, s)
	}
}

// TestUnfinishedTilesKeepTheKernel: it parks only when all tiles are finished.
func TestUnfinishedTilesKeepTheKernel(t *testing.T) {
	r := newKernelRig(t, 1, Options{Timeout: time.Minute})
	r.setHang(true)
	e, c := r.engines[0], batch.NewChunks(1, maxChunk)[0]
	fill(c, rand.New(rand.NewPCG(1, 1)), 10)
	e.Submit(c)
	if parked, err := r.kernel.park(20 * time.Millisecond); parked || err != nil || r.State().Parked {
		t.Errorf("parked with a tile in flight: %v, %v, %+v", parked, err, r.State())
	}
	r.setHang(false)
	await(e, c)
	if by := execute(t, e, c); by != "gpu" {
		t.Errorf("the next chunk is executed by the %s", by)
	}
	if parked, err := r.kernel.park(time.Second); !parked || err != nil {
		t.Errorf("without a tile: %v, %v", parked, err)
	}
}

// TestEngineBesideUnfinishedTiles: it does not start, and the error is that of the device, if it has failed.
func TestEngineBesideUnfinishedTiles(t *testing.T) {
	r := newKernelRig(t, 1, Options{Timeout: time.Minute})
	r.setHang(true)
	e, c, base, mem := r.engines[0], batch.NewChunks(1, maxChunk)[0], newBase(t), mapMemory(t, 1<<20)
	fill(c, rand.New(rand.NewPCG(1, 1)), 10)
	e.Submit(c)
	for _, want := range []string{"the kernel has not finished its chunks within 1s", "broken"} {
		if _, err := r.NewEngine(mem, 8, maxChunk, cpu.New(base, mem, make([]bool, 16))); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		r.state.fail(errors.New("broken"))
	}
	r.setHang(false)
	await(e, c)
}

// TestManyWorkersShareAGPU: 64 workers, and one of them uses blocks of all.
func TestManyWorkersShareAGPU(t *testing.T) {
	r := newKernelRig(t, 64, Options{Timeout: time.Minute, PlainTile: 10})
	for i, e := range r.engines {
		c := batch.NewChunks(1, maxChunk)[0]
		if by := execute(t, e, c); by != "gpu" {
			t.Errorf("worker %d: executed by the %s", i, by)
		}
	}
	park := func() int64 {
		if parked, err := r.kernel.park(time.Second); !parked || err != nil {
			t.Fatalf("park: %v, %v", parked, err)
		}
		return r.tiles.Load()
	}
	before := park()
	require.NoError(t, r.kernel.wake())
	e, chunks := r.engines[63], batch.NewChunks(2, maxChunk)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range chunks {
		fill(c, rnd, maxChunk)
		e.Submit(c)
	}
	for _, c := range chunks {
		await(e, c)
		if want := batch.Forward(c.In[maxChunk-1].Origin.Port() + 1); c.Out[maxChunk-1].Verdict != want {
			t.Errorf("the last packet has %v, want %v", c.Out[maxChunk-1].Verdict, want)
		}
	}
	if used := park() - before; used != maxChunk/10+8 { // the second has the remaining 8 of 38 slots
		t.Errorf("two chunks of %d packets were executed as %d tiles", maxChunk, used)
	}
}

// TestBlocksRestWithoutLoad: the control word falls to the blocks that the load needs, and rises before a
// tile is posted.
func TestBlocksRestWithoutLoad(t *testing.T) {
	r := newKernelRig(t, 1, Options{Timeout: time.Minute, PlainTile: 10})
	e, c := r.engines[0], batch.NewChunks(1, maxChunk)[0]
	rnd := rand.New(rand.NewPCG(1, 1))
	fill(c, rnd, maxChunk)
	r.setHang(true)
	e.Submit(c)
	if n := r.State().Awake; n < maxChunk/10 {
		t.Errorf("%d blocks are awake for %d tiles", n, maxChunk/10)
	}
	r.setHang(false)
	await(e, c)
	for start := time.Now(); r.State().Awake > minAwakeBlocks+spareBlocks; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d blocks stay awake", r.State().Awake)
		}
	}
}

// TestBlocksOfTakenSlotsStayAwake: whenever a worker has taken a slot, while the controller puts blocks to sleep.
func TestBlocksOfTakenSlotsStayAwake(t *testing.T) {
	m, p := newTestMailbox(t, 64, batchFrames)
	var stopping atomic.Bool
	var controller sync.WaitGroup
	controller.Go(func() {
		for !stopping.Load() {
			m.sleepBlocks(1, p)
		}
	})
	var room [maxTiles]uint16
	for i := range 300_000 {
		slots := p.take(room[:0], blockRequest{n: 1 + i%5})
		last := slots[len(slots)-1]
		m.wakeBlocks(uint32(last) + 1)
		for start := time.Now(); atomic.LoadUint32(m.control) <= uint32(last); {
			if time.Since(start) > 10*time.Second { // the controller may be preempted
				t.Fatalf("round %d: %d blocks are awake, slot %d is in use", i, atomic.LoadUint32(m.control), last)
			}
		}
		p.put(slots)
	}
	stopping.Store(true)
	controller.Wait()
}

// TestPollsWakeBlocks: a worker that polls for a chunk wakes the blocks of its tiles, should they rest.
func TestPollsWakeBlocks(t *testing.T) {
	e, blocks, chunks := newRig(t, 4, time.Minute)
	hangAll(blocks, true)
	fill(chunks[0], rand.New(rand.NewPCG(1, 1)), 10)
	e.Submit(chunks[0])
	atomic.StoreUint32(e.mailbox.control, 0)
	if e.Done(chunks[0]) {
		t.Fatal("a hung chunk is done")
	}
	if n, want := atomic.LoadUint32(e.mailbox.control), uint32(e.inFlight[0].slots[0])+1; n < want {
		t.Errorf("%d blocks are awake, want %d", n, want)
	}
	hangAll(blocks, false)
	await(e, chunks[0])
}

// TestControllerLooksAtLateEngines: at the kernel of engines that are created long after the device is opened.
func TestControllerLooksAtLateEngines(t *testing.T) {
	_, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	d := got(openFirst(base, Options{Library: library}))(t)
	defer d.Close()
	time.Sleep(5 * controlInterval)
	if _, err := d.NewEngine(mem, 8, maxChunk, cpu.New(base, mem, make([]bool, 16))); err != nil {
		t.Fatal(err)
	}
	d.kernel.mailbox.wakeBlocks(uint32(d.kernel.pool.blocks))
	for start := time.Now(); d.State().Awake > minAwakeBlocks+spareBlocks; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d blocks stay awake", d.State().Awake)
		}
	}
}
