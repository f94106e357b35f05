package gpu

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/gpu/choice"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// TestChunkOfTheCPUKeepsReplayWindow: a chunk without a free slot, behind one on the GPU with received ESP, is
// executed after it. Earlier, it would move the replay window past the packets on the GPU.
func TestChunkOfTheCPUKeepsReplayWindow(t *testing.T) {
	const size, window = 100, 64
	for _, choose := range []bool{false, true} {
		net, g := testutil.NewNetwork(), &gateway.Gateway{}
		sender, receiver := receivingTunnel(t, g, window)
		receiver.SetKeyIndex(0, nil) // like a device
		mem := mapMemory(t, 2*size*umem.FrameSize)
		e := newIPsecEngine(t, net, g, mem, 1, size, maxKeys, Options{Timeout: time.Minute, Choose: choose})
		e.traffic[0].class = choice.HMAC // so that the first chunk is the GPU's
		var posted *flight
		e.fakeGPU = func(f *flight) { posted = f }
		chunks := batch.NewChunks(2, size)
		for k, c := range chunks {
			receiveESP(t, sender, mem, c, k)
			e.Submit(c)
		}
		if p := e.inFlight[1].placement; p != NoFreeSlot || e.Done(chunks[0]) {
			t.Fatalf("the second chunk has placement %d", p)
		}
		in, out := slices.Clone(chunks[0].In), make([]batch.Result, size)
		e.esp.Repeat(mem, in, out, posted.jobs) // as the device does
		for k := range posted.tiles {
			s := &e.mailbox.slots[posted.slots[k]]
			for i := posted.tileStart(k); i < posted.tileStart(k+1); i++ {
				s.results[i-posted.tileStart(k)] = batch.ForwardTo(1, in[i].Addr, in[i].Len)
			}
			s.report()
		}
		expectForwarded(t, e, chunks)
		if e.lanes[0].receiving != 0 || e.lanes[0].deferred != 0 || e.kernel.backlog.Load() != 0 {
			t.Errorf("%d chunks with received ESP, %d deferred, a backlog of %d bytes", e.lanes[0].receiving, e.lanes[0].deferred, e.kernel.backlog.Load())
		}
	}
}

// expectForwarded checks that all chunks are done, in order, and all of their packets forwarded.
func expectForwarded(t *testing.T, e *Engine, chunks []*batch.Chunk) {
	t.Helper()
	for k, c := range chunks {
		if !e.Done(c) {
			t.Fatalf("chunk %d is not done", k)
		}
		for i, r := range c.Out {
			if r.Verdict.Action() != batch.ActionForward {
				t.Fatalf("packet %d of chunk %d: %v", i, k, r.Verdict)
			}
		}
	}
}

// TestFirstPassKeepsReplayWindow: a chunk whose received packets the GPU finds the SA of, behind one whose jobs the host has made,
// is confirmed after it, although the GPU finishes both before the host looks. Earlier, it would move the replay window past the
// packets of the older one.
func TestFirstPassKeepsReplayWindow(t *testing.T) {
	const size, window = 100, 64
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	sender, receiver := receivingTunnel(t, g, window)
	mem := mapMemory(t, 3*size*umem.FrameSize)
	e := newIPsecEngine(t, net, g, mem, 64, size, maxKeys, Options{Timeout: time.Minute})
	e.othersShare = 0
	e.fakeGPU = func(*flight) {}
	chunks := batch.NewChunks(3, size)
	finds := []bool{false, true, true}
	for k, c := range chunks {
		receiveESP(t, sender, mem, c, k)
		e.traffic[0].finding = findMode{on: finds[k], fixed: true}
		e.Submit(c)
		if f := &e.inFlight[k]; f.placement != ExecutedOnGPU || (f.pass == firstPass) != finds[k] {
			t.Fatalf("chunk %d: placement %d, pass %d", k, f.placement, f.pass)
		}
	}
	for k := range e.inFlight { // the GPU finishes all
		f := &e.inFlight[k]
		opened := slices.Clone(f.chunk.In)
		if !finds[k] {
			e.esp.Repeat(mem, opened, make([]batch.Result, size), f.jobs) // decrypts, as the device does
		}
		for tile := range f.tiles {
			s, first := &e.mailbox.slots[f.slots[tile]], f.tileStart(tile)
			for i := first; i < f.tileStart(tile+1); i++ {
				in, inner := opened[i], uint32(packet.IPv4Len+8+8)
				if s.results[i-first] = batch.ForwardTo(1, in.Addr, in.Len); finds[k] {
					s.results[i-first] = batch.ForwardTo(1, in.Addr+inner+esp.Admitted, packet.EthernetLen+packet.IPv4Len+8+60)
					s.saReports()[i-first] = esp.SAReport(k*size+i+1)<<32 | esp.SAReport(receiver.KeyIndex())
				}
			}
			s.report()
		}
	}
	expectForwarded(t, e, chunks)
	if n := receiver.Stats(); n.Packets != 3*size || n.Replays != 0 || e.lanes[0].inFirstPass != 0 {
		t.Errorf("%+v, %d chunks in their first pass", n, e.lanes[0].inFirstPass)
	}
}

// receivingTunnel adds the inbound SA of a tunnel with a window to a gateway, and returns it behind that of the sender.
func receivingTunnel(t *testing.T, g *gateway.Gateway, window int) (sender, receiver *ipsec.SA) {
	t.Helper()
	sa := func(d ipsec.Direction) *ipsec.SA {
		s, err := ipsec.NewSA(ipsec.Config{
			SPI: 0x1000, Direction: d, Src: netip.MustParseAddr("198.51.100.1"), Dst: netip.MustParseAddr("10.1.9.9"),
			Suite: "aes128gcm16", Key: make([]byte, 20), ReplayWindow: window, Tunnel: g.Tunnel("b"),
		}, 1)
		require.NoError(t, err)
		return s
	}
	sender, receiver = sa(ipsec.Out), sa(ipsec.In)
	require.NoError(t, g.Add(receiver))
	any := netip.MustParsePrefix("0.0.0.0/0")
	require.NoError(t, g.SetRules([]gateway.Rule{{Direction: ipsec.In, Policy: policy.Policy{Src: any, Dst: any, Action: policy.Protect, Target: receiver.Tunnel()}}}))
	return sender, receiver
}

// receiveESP fills chunk k with the sender's next packets.
func receiveESP(t *testing.T, sender *ipsec.SA, mem []byte, c *batch.Chunk, k int) {
	t.Helper()
	for i := range c.In {
		addr := uint32(k*len(c.In)+i)*umem.FrameSize + umem.DataOffset
		f, buf := testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 60)...), make([]byte, 1024)
		copy(buf[256:], f[packet.EthernetLen:])
		at, n, problem := sender.Encapsulate(0, buf, 256, len(f)-packet.EthernetLen)
		if problem != ipsec.OK {
			t.Fatal(problem)
		}
		copy(mem[addr:], f[:packet.EthernetLen])
		copy(mem[addr+packet.EthernetLen:], buf[at:][:n])
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(packet.EthernetLen + n)}
	}
	c.N, c.Submitted = len(c.In), batch.Clock()
}
