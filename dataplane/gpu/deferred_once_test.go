package gpu

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// TestDeferredChunksAreExecutedOnce: chunks on the GPU that follow deferred ones are not executed by the CPU, too. Each
// packet takes one sequence number.
func TestDeferredChunksAreExecutedOnce(t *testing.T) {
	net := testutil.NewNetwork()
	g := &gateway.Gateway{}
	s := protectAll(t, net, g)
	s.SetKeyIndex(0, nil) // like a device
	const size, slots, n = 32, 2, 5
	mem := mapMemory(t, n*size*umem.FrameSize)
	e := newIPsecEngine(t, net, g, mem, slots, size, maxKeys, Options{Timeout: time.Minute})
	chunks := batch.NewChunks(n, size)
	received := testutil.Raw4("192.0.2.1", "198.51.100.1", 50, make([]byte, 40)...) // ESP between other hosts
	submit := func(k int, frame []byte) *flight {
		c := chunks[k]
		for i := range c.In {
			f := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...)
			if i == 0 {
				f = frame
			}
			addr := uint32(k*size+i)*umem.FrameSize + umem.DataOffset
			copy(mem[addr:], f)
			c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
		}
		c.N, c.Submitted = size, batch.Clock()
		e.Submit(c)
		return &e.inFlight[len(e.inFlight)-1]
	}
	finish := func(f *flight) {
		c := f.chunk
		eachPacket(e, f, func(i int, r *batch.Result, job esp.Job) {
			if job.Kind == esp.Seal {
				e.checker.icvEnd(c.In[i], &job)[0]++
			}
			*r = batch.ForwardTo(1, c.In[i].Addr, c.In[i].Len)
		})
		for _, k := range f.slots[:f.tiles] {
			e.mailbox.slots[k].report()
		}
	}
	for round := range 4 {
		first := submit(0, received)
		second := submit(1, received)
		for k := 2; k < n; k++ {
			if f := submit(k, received); !f.deferred {
				t.Fatalf("round %d: chunk %d has placement %d, and is not deferred", round, k, f.placement)
			}
		}
		if first.placement != ExecutedOnGPU || second.placement != ExecutedOnGPU {
			t.Fatalf("round %d: the first chunks have placements %d and %d", round, first.placement, second.placement)
		}
		finish(first)
		finish(second)
		for k, c := range chunks {
			if !e.Done(c) {
				t.Fatalf("round %d: chunk %d is not done", round, k)
			}
		}
		if want := uint64((round + 1) * n * (size - 1)); s.Sequence() != want || e.lanes[0].deferred != 0 {
			t.Fatalf("round %d: %d numbers taken by %d packets, %d chunks deferred", round, s.Sequence(), want, e.lanes[0].deferred)
		}
	}
}
