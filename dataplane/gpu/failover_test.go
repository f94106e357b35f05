package gpu

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// protectAll adds an SA and a policy that protects UDP.
func protectAll(t *testing.T, net *testutil.Network, g *gateway.Gateway) *ipsec.SA {
	t.Helper()
	s, err := ipsec.NewSA(ipsec.Config{
		SPI: 0x1000, Src: netip.MustParseAddr("198.51.100.1"), Dst: far4, Suite: "aes128gcm16", Key: make([]byte, 20), Tunnel: g.Tunnel("b"),
	}, 1)
	require.NoError(t, err)
	require.NoError(t, g.Add(s))
	any := netip.MustParsePrefix("0.0.0.0/0")
	p := policy.Policy{Src: any, Dst: any, Protocol: 17, Action: policy.Protect, Target: s.Tunnel()}
	require.NoError(t, g.SetRules([]gateway.Rule{{Direction: ipsec.Out, Policy: p}}))
	return s
}

// sendAll sends 256 packets and returns the number of forwarded ones. It checks that all are ESP, with
// unused sequence numbers.
func sendAll(t *testing.T, w secured, s *ipsec.SA, used map[uint32]bool) (sent int) {
	t.Helper()
	c := batch.NewChunks(1, 256)[0]
	for i := range c.In {
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		f := testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.0.%d", i%250), 1, 2, make([]byte, i)...)
		copy(w.umem[addr:], f)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
	}
	c.N, c.Submitted = 256, batch.Clock()
	w.settle()
	w.engine.Submit(c)
	for start := time.Now(); !w.engine.Done(c); {
		if time.Since(start) > time.Second {
			t.Fatal("the chunk is not done")
		}
	}
	for i, r := range c.Out {
		if r.Verdict == batch.Lost {
			continue
		}
		p := w.umem[r.Addr():][:r.Len()][packet.EthernetLen:]
		spi, at, is := ipsec.Inbound(p)
		if r.Verdict != batch.Forward(1) || !is || spi != s.Config().SPI {
			t.Fatalf("packet %d: %v, % x", i, r.Verdict, p)
		}
		number := binary.BigEndian.Uint32(p[at+4:])
		if used[number] {
			t.Fatalf("packet %d has the number %d again", i, number)
		}
		used[number] = true
		sent++
	}
	return sent
}

func TestSequenceNumbersOfLostPacketsAreNotReused(t *testing.T) {
	net := testutil.NewNetwork()
	g := &gateway.Gateway{}
	s := protectAll(t, net, g)
	s.SetKeyIndex(0, nil) // like a device
	mem := mapMemory(t, 512*umem.FrameSize)
	e := newIPsecEngine(t, net, g, mem, 1, 256, maxKeys, Options{Timeout: 5 * time.Millisecond, Pause: time.Hour})
	e.fakeGPU = func(*flight) {} // no effect
	w, used := secured{mem, e, func() {}}, map[uint32]bool{}
	for round, want := range []int{0, 256, 256} {
		if n := sendAll(t, w, s, used); n != want || s.Sequence() != uint64(256*(round+1)) {
			t.Errorf("round %d: %d packets sent, %d numbers used", round, n, s.Sequence())
		}
	}
	if e.Name() != "cpu" {
		t.Errorf("the engine is %s", e.Name())
	}
}

// TestUnprotectedChunksOfGatewayAreSplit: over slots that had jobs before.
func TestUnprotectedChunksOfGatewayAreSplit(t *testing.T) {
	net := testutil.NewNetwork()
	g := &gateway.Gateway{}
	protectAll(t, net, g).SetKeyIndex(0, nil)
	mem := mapMemory(t, maxChunk*umem.FrameSize)
	e := newIPsecEngine(t, net, g, mem, 2*inlineTiles, maxChunk, maxKeys, Options{Timeout: time.Minute})
	mailbox := e.mailbox
	e.tiling.securedBatch = 1 << 20
	chunks := batch.NewChunks(inlineTiles, maxChunk)
	n := inlineTiles * inlineFrames
	for _, protected := range []bool{true, false} {
		e.tiling.inlineTiles = 1
		if !protected {
			chunks, e.tiling.inlineTiles = chunks[:1], inlineTiles
		}
		for _, c := range chunks {
			c.N = n
			clear(c.Out)
			for i := range n {
				addr := uint32(i)*umem.FrameSize + umem.DataOffset
				f := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2)
				if !protected {
					f = testutil.Raw4("192.0.2.1", "10.1.0.1", 1, 8, 0, 0, 0, 0, 0, 0, 0)
				}
				copy(mem[addr:], f)
				c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
			}
			e.Submit(c)
		}
		if busy := busy(e); busy != 1<<inlineTiles-1 {
			t.Fatalf("protected %v: slots %b are busy", protected, busy)
		}
		for k := range inlineTiles {
			s := &mailbox.slots[k]
			if jobs := uint32(s.descriptors[0]>>32)&hasJobsFlag != 0; jobs != protected {
				t.Errorf("protected %v: slot %d has jobs: %v", protected, k, jobs)
			}
			for i := range s.results {
				s.results[i] = batch.Result{Verdict: batch.Forward(uint16(k))}
				if in := chunks[min(k, len(chunks)-1)].In; i < n {
					at := i
					if !protected {
						at += k * inlineFrames
					} else {
						e.checker.icvEnd(in[i], &e.inFlight[k].jobs[i])[0]++
					}
					s.results[i] = batch.MakeResult(in[at%n].Addr, in[at%n].Len, s.results[i].Verdict)
				}
			}
			s.report()
		}
		for k, c := range chunks {
			if !e.Done(c) {
				t.Fatalf("protected %v: the chunk is not done", protected)
			}
			for i, r := range c.Out[:n] {
				want := batch.ForwardTo(uint16(k), c.In[i].Addr, c.In[i].Len)
				if !protected {
					want.Verdict = batch.Forward(uint16(i / inlineFrames))
				}
				if r != want {
					t.Fatalf("protected %v, packet %d: %+v, want %+v", protected, i, r, want)
				}
			}
		}
	}
}
