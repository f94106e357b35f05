package gpu

import (
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// TestReceivedESPWaitsForChunksOnTheGPU: the CPU executes a chunk behind one on the GPU at once, unless it has
// received ESP; then it and those behind it are executed in the order of completion.
func TestReceivedESPWaitsForChunksOnTheGPU(t *testing.T) {
	for name, late := range map[string]bool{"behind a late chunk": true, "without a free slot": false} {
		t.Run(name, func(t *testing.T) {
			net := testutil.NewNetwork()
			g := &gateway.Gateway{}
			s := protectAll(t, net, g)
			s.SetKeyIndex(0, nil) // like a device
			const size, n = 32, 5
			mem := mapMemory(t, n*size*umem.FrameSize)
			e := newIPsecEngine(t, net, g, mem, 1, size, maxKeys, Options{Timeout: 20 * time.Millisecond, Limit: time.Minute})
			var onGPU *flight
			e.fakeGPU = func(f *flight) { onGPU = f }
			chunks := batch.NewChunks(n, size)
			submit := func(k int, received bool) {
				c := chunks[k]
				for i := range c.In {
					addr := uint32(k*size+i)*umem.FrameSize + umem.DataOffset
					f := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...)
					if received && i == size-1 {
						f = testutil.Raw4("192.0.2.1", "198.51.100.1", 50, make([]byte, 40)...)
					}
					copy(mem[addr:], f)
					c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
				}
				c.N, c.Submitted = size, batch.Clock()
				e.Submit(c)
			}
			expect := func(what string, numbers int, deferred int) {
				t.Helper()
				if s.Sequence() != uint64(numbers) || e.lanes[0].deferred != deferred {
					t.Errorf("%s: %d numbers taken, %d chunks deferred; want %d and %d", what, s.Sequence(), e.lanes[0].deferred, numbers, deferred)
				}
			}
			submit(0, false)
			for late && !e.late {
				if e.Done(chunks[0]) {
					t.Fatal("a hung chunk is done")
				}
			}
			expect("on the GPU", size, 0)
			submit(1, false)
			expect("without ESP", 2*size, 0)
			submit(2, true)
			submit(3, false)
			expect("with ESP", 2*size, 2)
			eachPacket(e, onGPU, func(i int, r *batch.Result, job esp.Job) {
				e.checker.icvEnd(chunks[0].In[i], &job)[0]++
				*r = batch.ForwardTo(1, chunks[0].In[i].Addr, chunks[0].In[i].Len)
			})
			for k := range onGPU.tiles {
				e.mailbox.slots[onGPU.slots[k]].report()
			}
			if !e.Done(chunks[0]) {
				t.Fatal("a finished chunk is not done")
			}
			submit(4, false)
			expect("while others are deferred", 2*size, 3)
			for k, numbers := range []int{2 * size, 3*size - 1, 4*size - 1, 5*size - 1} {
				if !e.Done(chunks[k+1]) {
					t.Fatalf("chunk %d is not done", k+1)
				}
				expect("in order", numbers, 2-max(0, k-1)+max(0, 1-k))
			}
			submit(1, true)
			if f := e.inFlight[0]; f.placement != ExecutedOnGPU {
				t.Errorf("the next chunk has placement %d", f.placement)
			}
		})
	}
}

func TestMayBeESP(t *testing.T) {
	natt4, natt6 := testutil.UDP4("192.0.2.1", "10.1.0.1", 4500, 4500, 1, 2, 3, 4), testutil.UDP6("2001:db8::1", "fd01::1", 1, 4500, 1, 2, 3, 4)
	options := slices.Clone(natt4)
	options[14], options[37] = 0x46, 99
	fragment := testutil.Edit(testutil.UDP6("2001:db8::1", "fd01::1", 1, 2), 6, 44)
	for name, tt := range map[string]struct {
		frame []byte
		want  bool
	}{
		"UDP":                    {testutil.UDP4("192.0.2.1", "10.1.0.1", 4500, 2), false},
		"ESP":                    {testutil.Raw4("192.0.2.1", "10.1.0.1", 50, 1, 2, 3, 4, 5, 6, 7, 8), true},
		"ESP in UDP":             {natt4, true},
		"UDP behind IP options":  {options, true},
		"ICMP":                   {testutil.Raw4("192.0.2.1", "10.1.0.1", 1, 8, 0, 0, 0, 0, 0, 0, 0), false},
		"UDP in IPv6":            {testutil.UDP6("2001:db8::1", "fd01::1", 4500, 2), false},
		"ESP in UDP in IPv6":     {natt6, true},
		"IPv6 extension headers": {fragment, true},
		"too short":              {make([]byte, 33), false},
		"UDP without a header":   {testutil.Raw4("192.0.2.1", "10.1.0.1", 17, 1), false},
	} {
		if got := mayBeESP(tt.frame); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
