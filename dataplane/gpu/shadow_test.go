package gpu

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// agreedInShadow fails the test if the CPU repeated no chunk or found a difference.
func agreedInShadow(t *testing.T, e *Engine) {
	t.Helper()
	s := e.shadow
	if same, different := s.same.Load(), s.different.Load(); same == 0 || different > 0 {
		t.Errorf("the CPU repeated %d chunks with the same result and %d with another one (%v), and skipped %d", same, different, e.state.err(), s.skipped.Load())
	}
}

// posted returns frame i of a slot's tile.
func posted(s *slot, i int) batch.Frame {
	in := i % s.each
	word := s.descriptors[i/s.each*batchBytes/8+in/cacheLineFrames*cacheLineWords+1+in%cacheLineFrames]
	return batch.Frame{Addr: uint32(word), Len: uint16(word >> 32), Origin: batch.Origin(word >> 48)}
}

// noKeys is a gateway.Device without keys and policies.
type noKeys struct{}

func (noKeys) Store(uint32, *device.Key)   {}
func (noKeys) Erase(uint32)                {}
func (noKeys) AddSPI(spi, index uint32)    {}
func (noKeys) RemoveSPI(spi, index uint32) {}
func (noKeys) SetPolicies(_, _ []uint32)   {}

// securedInGo returns an engine whose fake device is the CPU's code: correct, without allocations.
func securedInGo(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	g.Follow(noKeys{})
	mem := make([]byte, securedFrames*umem.FrameSize)
	e := newIPsecEngine(t, net, g, mem, 1, securedChunk, maxKeys, Options{Timeout: 1 << 40, PartialChecksums: net.PartialChecksums})
	e.shadow = newShadow(e, securedChunk, 1, nil)
	worker, in := e.cpu.Over(mem), make([]batch.Frame, securedChunk)
	e.fakeGPU = eachTile(e, func(s *slot, tile []batch.Frame, jobs []esp.Job) {
		n := len(tile)
		for i := range n {
			in[i] = posted(s, i)
		}
		for i := range jobs {
			if jobs[i].Kind == esp.Decided {
				in[i].Len = 0
			}
		}
		clear(s.results[:n])
		if jobs != nil {
			e.esp.Repeat(mem, in[:n], s.results[:n], jobs)
		}
		worker.Route(in[:n], s.results[:n])
	})
	return secured{mem, e, func() {}}
}

func TestKernelCodeAgreesInShadow(t *testing.T) {
	net, rnd := testutil.NewNetwork(), rand.New(rand.NewPCG(21, 4))
	sh := newShim(t, net.FIB, net.PartialChecksums, securedChunk, securedChunk*umem.FrameSize)
	mailbox, pool := newTestMailbox(t, 2, securedChunk)
	e := newEngine(cpu.New(net.FIB, sh.umem, net.PartialChecksums), &deviceState{}, &kernelState{}, mailbox, pool, sh.umem,
		Options{Timeout: 1 << 40, PartialChecksums: net.PartialChecksums, PlainTile: 60})
	e.shadow = newShadow(e, securedChunk, 2, nil)
	e.fakeGPU = eachTile(e, func(s *slot, in []batch.Frame, _ []esp.Job) {
		for i := range in {
			sh.in[i] = posted(s, i)
		}
		sh.submit(len(in))
		copy(s.results, sh.out[:len(in)])
	})
	chunks := batch.NewChunks(1, securedChunk)
	traffic, c, forwarded := &testutil.Traffic{Rand: rnd, To: net.Prefixes}, chunks[0], 0
	for range 100 {
		c.N = 1 + rnd.IntN(securedChunk)
		for i := range c.N {
			f := testutil.Mutate(rnd, traffic.Frame())
			if i%2 == 0 {
				f = traffic.Frame()
			}
			c.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f)), Origin: batch.From(uint16(rnd.IntN(4)))}
			copy(sh.umem[c.In[i].Addr:], f)
		}
		c.Submitted = batch.Clock()
		process(e, c)
		for _, r := range c.Out[:c.N] {
			if r.Verdict.Action() == batch.ActionForward {
				forwarded++
			}
		}
	}
	agreedInShadow(t, e)
	if n := e.shadow.same.Load(); n != 50 || forwarded < 1000 {
		t.Errorf("the CPU repeated %d of 100 chunks, want every second one; %d packets were forwarded", n, forwarded)
	}
}

// TestShadowDetectsWrongResults: plausible wrong results drop the packets of the chunk as
// gpu_bad_result and take the device out of use.
func TestShadowDetectsWrongResults(t *testing.T) {
	w := newSecuredTwins(t, securedInGo, 12)
	e := w.gpu.engine
	work, forward, port := e.fakeGPU, batch.ActionForward, uint16(len(w.net.PartialChecksums)-1)
	for _, c := range []struct {
		name    string
		kind    esp.JobKind // of the wrong packet
		is      func(r batch.Result) bool
		corrupt func(r *batch.Result, f []byte, at int)
	}{
		{"a bit of a forwarded header", esp.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, _ int) { f[packet.EthernetLen+8] ^= 1 }},
		{"a bit of a link address", esp.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, _ int) { f[3] ^= 0x80 }},
		{"a bit of ciphertext", esp.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, at int) { f[at+30] ^= 4 }},
		{"a bit of an ICV", esp.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, f []byte, _ int) { f[r.Len()-1] ^= 1 }},
		{"a bit of decrypted plaintext", esp.Open, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) { w.gpu.umem[r.Addr()+uint32(r.Len())-1] ^= 2 }},
		{"another port", esp.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward && r.Verdict != batch.Forward(port) }, func(r *batch.Result, _ []byte, _ int) { r.Verdict = batch.Forward(port) }},
		{"another adjacency", esp.Plain, func(r batch.Result) bool { return r.Verdict == batch.Hold }, func(r *batch.Result, _ []byte, _ int) { *r = batch.HoldFor(r.Adjacency() ^ 1) }},
		{"a length that is too short", esp.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) { *r = batch.MakeResult(r.Addr(), r.Len()-1, r.Verdict) }},
		{"another reason", esp.Plain, func(r batch.Result) bool {
			return r.Verdict.Action() == batch.ActionDrop && r.Verdict.Reason() != batch.NoRoute
		}, func(r *batch.Result, _ []byte, _ int) { r.Verdict = batch.Drop(batch.NoRoute) }},
		{"dropped", esp.Open, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) {
			*r = batch.DropFor(batch.NoRoute)
		}},
		{"authentic", esp.Open, func(r batch.Result) bool {
			return r.ICVFailed()
		}, func(r *batch.Result, f []byte, at int) {
			*r = batch.ForwardTo(1, w.chunks[1].In[0].Addr+uint32(at)+2, minFrame)
		}},
	} {
		e.state = &deviceState{}
		e.checker.state = e.state
		before, wrongAt := e.shadow.different.Load(), -1
		e.fakeGPU = func(f *flight) {
			work(f)
			eachPacket(e, f, func(i int, r *batch.Result, job esp.Job) {
				if f := w.chunks[1].In[i]; wrongAt < 0 && job.Kind == c.kind && c.is(*r) {
					wrongAt = i
					c.corrupt(r, w.gpu.umem[f.Addr:][:f.Len], int(job.ESP))
				}
			})
		}
		chunk := w.submit()
		for range 20 {
			if wrongAt >= 0 {
				break
			}
			chunk = w.submit()
		}
		if err := e.state.err(); wrongAt < 0 || e.shadow.different.Load() != before+1 || err == nil || causeOf(err) != CauseMismatch ||
			!strings.Contains(err.Error(), fmt.Sprintf("packet %d of %d,", wrongAt, chunk.N)) {
			t.Errorf("%s: packet %d is wrong, %d chunks differ; the device is out for %v", c.name, wrongAt, e.shadow.different.Load()-before, err)
		}
		dropped := 0
		for i, r := range chunk.Out[:chunk.N] {
			if r.Verdict.Action() != batch.ActionDrop {
				t.Errorf("%s: packet %d: %v", c.name, i, r.Verdict)
			} else if r.Verdict == batch.Drop(batch.GPUBadResult) {
				dropped++
			}
		}
		if dropped < chunk.N/2 || chunk.Out[max(wrongAt, 0)].Verdict != batch.Drop(batch.GPUBadResult) {
			t.Errorf("%s: %d of %d packets are dropped as gpu_bad_result", c.name, dropped, chunk.N)
		}
		byCPU := e.executed[ExecutedOnCPU].Load()
		if w.submit(); e.Name() != "cpu" || e.executed[ExecutedOnCPU].Load() != byCPU+1 {
			t.Errorf("%s: the device is still used", c.name)
		}
	}
}

// TestShadowSkipsChunksWhileTablesChange: their results are used.
func TestShadowSkipsChunksWhileTablesChange(t *testing.T) {
	w := newSecuredTwins(t, securedInGo, 13)
	e, p := w.gpu.engine, &patcher{}
	s, work := e.shadow, e.fakeGPU
	s.patcher = p
	wrong := func(change func()) func(*flight) {
		return func(f *flight) {
			work(f)
			eachPacket(e, f, func(i int, r *batch.Result, _ esp.Job) {
				if r.Verdict.Action() == batch.ActionForward {
					w.gpu.umem[w.chunks[1].In[i].Addr] ^= 1
				}
			})
			change()
		}
	}
	for _, c := range []struct {
		name    string
		prepare func()
		gpu     func(*flight)
		skipped uint64
	}{
		{"no change", func() {}, work, 0},
		{"a change that the device does not have", func() { p.queued.Add(1) }, wrong(func() {}), 1},
		{"a change while the device has the chunk", func() { p.applied.Store(p.queued.Load()) }, wrong(func() { p.queued.Add(1) }), 1},
		{"a change that is queued late", func() { p.applied.Store(p.queued.Load()) }, wrong(func() {
			time.AfterFunc(500*time.Microsecond, func() { p.queued.Add(1) })
		}), 1},
	} {
		c.prepare()
		e.fakeGPU = c.gpu
		before := s.skipped.Load()
		w.submit()
		if n := s.skipped.Load() - before; n != c.skipped || e.Name() != "gpu" {
			t.Errorf("%s: %d chunks skipped, want %d; the device is out for %v", c.name, n, c.skipped, e.state.err())
		}
	}
	if s.same.Load() != 1 || s.different.Load() != 0 {
		t.Errorf("%d chunks are the same, %d differ", s.same.Load(), s.different.Load())
	}
}

func TestShadowAllocatesNothing(t *testing.T) {
	w := newSecuredTwins(t, securedInGo, 14)
	e, d := w.gpu.engine, w.submit()
	received := make([]batch.Frame, securedChunk)
	for i := range received {
		f := w.clear(i%3 == 0, 9, outPort+i%len(w.all))
		received[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f))}
		copy(w.gpu.umem[received[i].Addr:], f)
	}
	before := e.shadow.same.Load()
	if n := testing.AllocsPerRun(10, func() {
		copy(d.In, received)
		d.Submitted = batch.Clock()
		process(e, d)
	}); n != 0 {
		t.Errorf("a chunk allocates %v times", n)
	}
	if n := e.shadow.same.Load() - before; n != 11 {
		t.Errorf("the CPU repeated %d of 11 chunks (%v)", n, e.state.err())
	}
}
