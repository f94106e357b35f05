//go:build gpu

package gpu

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// homeRig is a gateway with a worker on each GPU of the host, the first of which is the home of the sequence numbers. All seal packets of the
// same SAs.
type homeRig struct {
	*testing.T
	*Devices
	workers []secured
	mu      sync.Mutex
	used    []uint64 // sequence numbers that left, behind SPIs
}

func newHomeRig(t *testing.T, o Options) *homeRig {
	t.Helper()
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	o.Gateway, o.PartialChecksums = g, net.PartialChecksums
	r := &homeRig{T: t, Devices: got(OpenAll(net.FIB, o))(t)}
	protectPorts(t, g, len(r.All), 8)
	r.All[0].kernel.lender.weighEvery = 1 << 60 // loans end with the kernel only, and assigned counts on
	for n := range r.All {
		mem := got(umem.New(1024))(t)
		fallback := cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)
		fallback.Secure(g, n)
		r.workers = append(r.workers, secured{mem.Bytes(), got(r.NewEngine(mem.Bytes(), 4, 256, fallback))(t), nil})
	}
	return r
}

// seal has a worker seal chunks until the end, one after another, and returns the longest time of one. It records the numbers of packets that leave.
func (r *homeRig) seal(n int, end func() bool) (longest time.Duration) {
	w, c := r.workers[n], batch.NewChunks(1, 256)[0]
	var used []uint64
	for !end() {
		for i := range c.In {
			addr := uint32(i)*umem.FrameSize + umem.DataOffset
			f := testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+i%8), make([]byte, 100)...)
			copy(w.umem[addr:], f)
			c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: batch.From(2)}
		}
		for start := time.Now(); !w.engine.Quiesced(); { // the GPU may write to frames of a chunk that is lost
			if time.Since(start) > 10*time.Second || end() {
				r.record(used)
				return max(longest, time.Since(start))
			}
		}
		start := time.Now()
		c.N, c.Submitted = len(c.In), batch.Clock()
		w.engine.Submit(c)
		await(w.engine, c)
		longest = max(longest, time.Since(start))
		for i, f := range c.In {
			if c.Out[i].Verdict == batch.Lost {
				continue
			}
			p := w.umem[f.Addr:][packet.EthernetLen:f.Len]
			spi, at, is := ipsec.Inbound(p)
			if c.Out[i].Verdict != batch.Forward(1) || !is {
				r.Errorf("worker %d, packet %d: %v, sealed: %v", n, i, c.Out[i].Verdict, is)
				return longest
			}
			used = append(used, uint64(spi)<<32|uint64(binary.BigEndian.Uint32(p[at+4:])))
		}
	}
	r.record(used)
	return longest
}

func (r *homeRig) record(used []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = append(r.used, used...)
}

// unique checks that no number was used twice.
func (r *homeRig) unique() {
	slices.Sort(r.used)
	for i := 1; i < len(r.used); i++ {
		if r.used[i] == r.used[i-1] {
			r.Fatalf("number %#x is used twice", r.used[i])
		}
	}
	r.Logf("%d GPUs, %d numbers", len(r.All), len(r.used))
}

// TestGPUHomeFaults: a kernel of the home uses an illegal address. Its context is destroyed, the other GPUs' workers continue, on their GPU or on
// the CPU, and no number is used twice.
func TestGPUHomeFaults(t *testing.T) {
	t.Run("faulted", func(t *testing.T) {
		if !alone(t) {
			return
		}
		r := newHomeRig(t, Options{Limit: 20 * time.Millisecond})
		home := r.All[0]
		var done atomic.Bool
		var group sync.WaitGroup
		for n := range r.workers {
			group.Go(func() {
				longest := r.seal(n, done.Load)
				if t.Logf("worker %d: a chunk took at most %v, by the %s", n, longest, r.workers[n].engine.Name()); longest > time.Second {
					t.Error("too long")
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if home.kernel.lender.assigned.Load() == 0 {
			t.Error("the GPUs have assigned no numbers before the fault")
		}
		home.tables.patcher.add(patch{At: home.pointers.IPv4, Word: 0xdead << 48, Count: 1, Bytes: 8})
		home.tables.patcher.drain()
		t.Logf("%d numbers by GPUs before the fault", home.kernel.lender.assigned.Load())
		for start := time.Now(); !home.state.destroyed.Load(); time.Sleep(10 * time.Millisecond) {
			if err := r.Err(); time.Since(start) > 5*time.Second {
				t.Errorf("the context is not destroyed within 5 s: %v", err)
				break
			}
		}
		time.Sleep(500 * time.Millisecond)
		done.Store(true)
		group.Wait()
		r.unique()
		for _, s := range r.States() {
			t.Logf("GPU %d: failed: %v, %d chunks, %d by the CPU, %d timeouts: %v", s.Number, s.Failed, s.ByGPU, s.ByCPU, s.Timeouts, r.All[s.Number].Err())
		}
		t.Logf("close: %v", r.Close())
	})
}

// TestGPUHomeParks: kernels park, release their tables, and are launched again. A worker that is not the home's needs the home's kernel, too, for
// numbers.
func TestGPUHomeParks(t *testing.T) {
	r := newHomeRig(t, Options{Timeout: 10 * time.Second, Park: 20 * time.Millisecond, ReleaseMemory: true})
	last := len(r.workers) - 1
	const rounds = 5
	assigned, longest := 0, time.Duration(0)
	for range rounds {
		by := time.Now().Add(800 * time.Millisecond)
		r.All[0].kernel.lender.assigned.Store(0)
		longest = max(longest, r.seal(last, func() bool { return time.Now().After(by) }))
		if r.All[0].kernel.lender.assigned.Load() > 0 {
			assigned++
		}
		for start := time.Now(); !r.All[0].State().Parked || !r.All[last].State().Parked; time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatal("the kernels do not park")
			}
		}
	}
	r.unique()
	if t.Logf("numbers by the GPU in %d of %d rounds; a chunk took at most %v", assigned, rounds, longest); assigned < rounds-1 || longest > time.Second {
		t.Error("too few, or too long")
	}
	for _, s := range r.States() {
		if s.Failed || s.Timeouts > 0 {
			t.Errorf("GPU %d: %+v", s.Number, s)
		}
	}
	require.NoError(t, r.Close())
}
