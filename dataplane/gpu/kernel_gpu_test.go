//go:build gpu

package gpu

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// fillPackets writes packets to a worker's frames, from one on, and lists them in a chunk.
func fillPackets(c *batch.Chunk, mem []byte, first, n int) {
	frame := testutil.UDP4("192.0.2.1", "10.1.0.9", 1000, 53, make([]byte, 40)...)
	for i := range n {
		addr := uint32(first+i)*umem.FrameSize + umem.DataOffset
		copy(mem[addr:], frame)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(frame))}
	}
	c.N, c.Submitted = n, batch.Clock()
	clear(c.Out[:n])
}

// forwardedAll fails the test unless all packets of a chunk are forwarded.
func forwardedAll(t *testing.T, c *batch.Chunk) {
	t.Helper()
	for i, r := range c.Out[:c.N] {
		if r.Verdict != batch.Forward(1) {
			t.Fatalf("packet %d of %d: %v", i, c.N, r.Verdict)
		}
	}
}

// TestGPUWakesWithinAMillisecond: from the first chunk for a parked kernel to the first one that the GPU
// has executed. No packet is lost.
func TestGPUWakesWithinAMillisecond(t *testing.T) {
	net := testutil.NewNetwork()
	d := got(openFirst(net.FIB, Options{PartialChecksums: net.PartialChecksums, Park: 30 * time.Millisecond}))(t)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	mem := got(umem.New(1024))(t)
	e := got(d.NewEngine(mem.Bytes(), 4, 512, cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)))(t)
	c := batch.NewChunks(1, 512)[0]
	var took []time.Duration
	for range 21 {
		for start := time.Now(); !d.State().Parked; time.Sleep(time.Millisecond) {
			if time.Since(start) > 5*time.Second {
				t.Fatal("the kernel does not park")
			}
		}
		start, before := time.Now(), e.executed[ExecutedOnGPU].Load()
		for e.executed[ExecutedOnGPU].Load() == before {
			fillPackets(c, mem.Bytes(), 0, 200)
			process(e, c)
			forwardedAll(t, c)
			if time.Since(start) > time.Second {
				t.Fatal("the kernel does not wake")
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("woke up within %v (median), %v (maximum)", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Millisecond {
		t.Errorf("the median of the wake-up times is %v, want 1ms at most", took[len(took)/2])
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

// TestGPUParksUnderLoad: 64 workers submit chunks of random sizes while the kernel parks and wakes: all
// packets are forwarded, by one engine or the other.
func TestGPUParksUnderLoad(t *testing.T) {
	const workers, chunks, size = 64, 3, 1024
	net := testutil.NewNetwork()
	d := got(openFirst(net.FIB, Options{PartialChecksums: net.PartialChecksums, Park: time.Hour, Timeout: 5 * time.Second}))(t)
	var stopping atomic.Bool
	var running sync.WaitGroup
	stop := func() { stopping.Store(true); running.Wait() }
	t.Cleanup(stop) // other tests would be slow beside the workers
	var memories []*umem.Memory
	var engines []*Engine
	for range workers { // before the first chunk, as in the router: the kernel parks for each
		mem := got(umem.New(chunks * size))(t)
		memories = append(memories, mem)
		engines = append(engines, got(d.NewEngine(mem.Bytes(), chunks, size, cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)))(t))
	}
	for i, e := range engines {
		mem := memories[i]
		running.Go(func() {
			rnd, all := rand.New(rand.NewPCG(uint64(i), 5)), batch.NewChunks(chunks, size)
			for !stopping.Load() {
				for k, c := range all {
					fillPackets(c, mem.Bytes(), k*size, 1+rnd.IntN(1+rnd.IntN(size)))
					e.Submit(c)
				}
				for _, c := range all {
					for !e.Done(c) {
						time.Sleep(time.Microsecond)
					}
					for k, r := range c.Out[:c.N] {
						if r.Verdict != batch.Forward(1) {
							t.Errorf("worker %d, packet %d of %d: %v", i, k, c.N, r.Verdict)
							return
						}
					}
				}
			}
		})
	}
	parks, start := 0, time.Now() // with 64 workers on 16 cores, each change takes a tenth of a second
	for ; parks < 20 && time.Since(start) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		if !d.State().Parked {
			if parked, err := d.kernel.park(time.Second); err != nil {
				t.Fatal(err)
			} else if parked {
				parks++
			}
		}
	}
	stop()
	s := d.State()
	t.Logf("parked %d times; %d chunks by the GPU, %d by the CPU while parked, %d without a slot", parks, s.ByGPU, s.KernelParked, s.NoFreeSlot)
	if parks < 20 || s.ByGPU < 1000 || s.KernelParked < 100 || s.Timeouts != 0 {
		t.Errorf("parked %d times: %+v", parks, s)
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
