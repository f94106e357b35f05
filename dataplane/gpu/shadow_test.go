package gpu

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// agreedInShadow fails the test where the CPU repeated no chunk, or came to another result.
func agreedInShadow(t *testing.T, e *Engine) {
	t.Helper()
	s := e.shadow
	if same, different := s.same.Load(), s.different.Load(); same == 0 || different > 0 {
		t.Errorf("the CPU repeated %d chunks with the same result and %d with another one (%v), and skipped %d", same, different, e.health.err(), s.skipped.Load())
	}
}

// finish marks a slot's chunk as done.
func finish(s *slot, seq uint32) {
	for i := range s.parts {
		atomic.StoreUint32(&s.done[i], seq)
	}
}

// posted returns frame i of a slot's chunk.
func posted(s *slot, i int) batch.Frame {
	word := s.quads[i/unitFrames*unitWords+1+i%unitFrames]
	return batch.Frame{Addr: uint32(word), Len: uint16(word >> 32), Port: uint16(word >> 48)}
}

// noKeys is a gateway.Holder that keeps none.
type noKeys struct{}

func (noKeys) Hold(uint32, *device.Key) {}
func (noKeys) Forget(uint32)            {}

// securedInGo is an engine whose device is the CPU's code: it makes no mistake and allocates nothing.
func securedInGo(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	g.Follow(noKeys{})
	mem := make([]byte, securedFrames*umem.FrameSize)
	fallback := cpu.New(net.FIB, mem, net.Repair)
	fallback.Secure(g, 0)
	mail, err := newMailbox(1, securedChunk)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(fallback, &health{}, mail, mem, Options{Timeout: 1 << 40, Repair: net.Repair})
	if e.securer, err = newSecurer(1, securedChunk, maxKeys); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.securer.jobs.close(); mail.close() })
	e.shadow = newShadow(e, securedChunk, 1, nil)
	worker, in := fallback.Repeater(mem), make([]batch.Frame, securedChunk)
	e.launch = func(number int, seq uint32, n int) error {
		s, tasks := &e.mail.slots[number], []cpu.Task(nil)
		for i := range n {
			in[i] = posted(s, i)
		}
		if s.flags == jobsSize {
			tasks = e.securer.tasks[number][:n]
			for i := range tasks {
				if tasks[i].Kind == cpu.Settled {
					in[i].Len = 0
				}
			}
		}
		worker.Repeat(in[:n], s.results[:n], tasks)
		finish(s, seq)
		return nil
	}
	return secured{mem, e, func() {}}
}

// The kernels' code forwards as the CPU that repeats each of its chunks.
func TestKernelCodeAgreesInShadow(t *testing.T) {
	net, rnd := testutil.NewNetwork(), rand.New(rand.NewPCG(21, 4))
	sh := newShim(t, net.FIB, net.Repair, securedChunk, securedChunk*umem.FrameSize)
	mail, err := newMailbox(1, securedChunk)
	if err != nil {
		t.Fatal(err)
	}
	defer mail.close()
	e := newEngine(cpu.New(net.FIB, sh.umem, net.Repair), &health{}, mail, sh.umem, Options{Timeout: 1 << 40, Repair: net.Repair})
	e.shadow = newShadow(e, securedChunk, 2, nil)
	e.launch = func(number int, seq uint32, n int) error {
		s := &mail.slots[number]
		for i := range n {
			sh.in[i] = posted(s, i)
		}
		sh.submit(n)
		copy(s.results, sh.out[:n])
		finish(s, seq)
		return nil
	}
	slab, err := batch.NewSlab(1, securedChunk)
	if err != nil {
		t.Fatal(err)
	}
	defer slab.Close()
	traffic, c, forwarded := &testutil.Traffic{Rand: rnd, To: net.Prefixes}, slab.Chunks[0], 0
	for range 100 {
		c.N = 1 + rnd.IntN(securedChunk)
		for i := range c.N {
			f := testutil.Mutate(rnd, traffic.Frame())
			if i%2 == 0 {
				f = traffic.Frame()
			}
			c.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f)), Port: uint16(rnd.IntN(4))}
			copy(sh.umem[c.In[i].Addr:], f)
		}
		c.Submitted = batch.Clock()
		e.Submit(c)
		for !e.Done(c) {
		}
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

// The CPU finds results that look right and are wrong. The chunk's packets are dropped as
// gpu_bad_result, and the device is not used again.
func TestShadowFindsWrongResults(t *testing.T) {
	w := newSecuredTwins(t, securedInGo, 12)
	e := w.gpu.engine
	work, forward, port := e.launch, batch.ActionForward, uint16(len(w.net.Repair)-1)
	for _, c := range []struct {
		name string
		kind cpu.TaskKind // of the packet that is wrong
		is   func(r batch.Result) bool
		lie  func(r *batch.Result, f []byte, at int)
	}{
		{"a bit of a forwarded header", cpu.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, _ int) { f[packet.EthernetLen+8] ^= 1 }},
		{"a bit of a link address", cpu.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, _ int) { f[3] ^= 0x80 }},
		{"a bit of ciphertext", cpu.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(_ *batch.Result, f []byte, at int) { f[at+30] ^= 4 }},
		{"a bit of an ICV", cpu.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, f []byte, _ int) { f[r.Len-1] ^= 1 }},
		{"a bit of decrypted plaintext", cpu.Open, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) { w.gpu.umem[r.Addr+uint32(r.Len)-1] ^= 2 }},
		{"another port", cpu.Plain, func(r batch.Result) bool { return r.Verdict.Action() == forward && r.Verdict != batch.Forward(port) }, func(r *batch.Result, _ []byte, _ int) { r.Verdict = batch.Forward(port) }},
		{"another adjacency", cpu.Plain, func(r batch.Result) bool { return r.Verdict == batch.Hold }, func(r *batch.Result, _ []byte, _ int) { r.Addr ^= 1 }},
		{"a length that is too short", cpu.Seal, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) { r.Len-- }},
		{"another reason", cpu.Plain, func(r batch.Result) bool {
			return r.Verdict.Action() == batch.ActionDrop && r.Verdict.Reason() != batch.NoRoute
		}, func(r *batch.Result, _ []byte, _ int) { r.Verdict = batch.Drop(batch.NoRoute) }},
		{"dropped", cpu.Open, func(r batch.Result) bool { return r.Verdict.Action() == forward }, func(r *batch.Result, _ []byte, _ int) {
			*r = batch.Result{Verdict: batch.Drop(batch.NoRoute)}
		}},
		{"authentic", cpu.Open, func(r batch.Result) bool {
			return r.Verdict == batch.Drop(batch.XfrmInStateProtoError) && r.Len == cpu.Forged
		}, func(r *batch.Result, f []byte, at int) {
			*r = batch.Result{Addr: w.chunks[1].In[0].Addr + uint32(at) + 2, Len: minFrame, Verdict: batch.Forward(1)}
		}},
	} {
		e.health = &health{}
		e.checker.health = e.health
		before, lied := e.shadow.different.Load(), -1
		e.launch = func(slot int, seq uint32, n int) error {
			err := work(slot, seq, n)
			for i := range n {
				r, task := &e.mail.slots[slot].results[i], &e.securer.tasks[slot][i]
				if f := w.chunks[1].In[i]; lied < 0 && task.Kind == c.kind && c.is(*r) {
					lied = i
					c.lie(r, w.gpu.umem[f.Addr:][:f.Len], int(task.ESP))
				}
			}
			return err
		}
		chunk := w.submit()
		for range 20 {
			if lied >= 0 {
				break
			}
			chunk = w.submit()
		}
		if err := e.health.err(); lied < 0 || e.shadow.different.Load() != before+1 || err == nil || causeOf(err) != CauseMismatch ||
			!strings.Contains(err.Error(), fmt.Sprintf("packet %d of %d,", lied, chunk.N)) {
			t.Errorf("%s: packet %d is wrong, %d chunks differ; the device is out for %v", c.name, lied, e.shadow.different.Load()-before, err)
		}
		dropped := 0
		for i, r := range chunk.Out[:chunk.N] {
			if r.Verdict.Action() != batch.ActionDrop {
				t.Errorf("%s: packet %d: %v", c.name, i, r.Verdict)
			} else if r.Verdict == batch.Drop(batch.GPUBadResult) {
				dropped++
			}
		}
		if dropped < chunk.N/2 || chunk.Out[max(lied, 0)].Verdict != batch.Drop(batch.GPUBadResult) {
			t.Errorf("%s: %d of %d packets are dropped as gpu_bad_result", c.name, dropped, chunk.N)
		}
		byCPU := e.byCPU.Load()
		if w.submit(); e.Name() != "cpu" || e.byCPU.Load() != byCPU+1 {
			t.Errorf("%s: the device is still used", c.name)
		}
	}
}

// While the device and the router have different tables, chunks are skipped, and their results used.
func TestShadowSkipsChunksWhileTablesChange(t *testing.T) {
	w := newSecuredTwins(t, securedInGo, 13)
	e, p := w.gpu.engine, &patcher{}
	s, work := e.shadow, e.launch
	s.patcher = p
	wrong := func(change func()) func(int, uint32, int) error {
		return func(slot int, seq uint32, n int) error {
			err := work(slot, seq, n)
			for i, f := range w.chunks[1].In[:n] {
				if e.mail.slots[slot].results[i].Verdict.Action() == batch.ActionForward {
					w.gpu.umem[f.Addr] ^= 1
				}
			}
			change()
			return err
		}
	}
	for _, c := range []struct {
		name    string
		prepare func()
		launch  func(int, uint32, int) error
		skipped uint64
	}{
		{"no change", func() {}, work, 0},
		{"a change that the device does not have", func() { p.added.Add(1) }, wrong(func() {}), 1},
		{"a change while the device has the chunk", func() { p.made.Store(p.added.Load()) }, wrong(func() { p.added.Add(1) }), 1},
		{"a change that is queued late", func() { p.made.Store(p.added.Load()) }, wrong(func() {
			time.AfterFunc(500*time.Microsecond, func() { p.added.Add(1) })
		}), 1},
	} {
		c.prepare()
		e.launch = c.launch
		before := s.skipped.Load()
		w.submit()
		if n := s.skipped.Load() - before; n != c.skipped || e.Name() != "gpu" {
			t.Errorf("%s: %d chunks skipped, want %d; the device is out for %v", c.name, n, c.skipped, e.health.err())
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
		e.Submit(d)
		for !e.Done(d) {
		}
	}); n != 0 {
		t.Errorf("a chunk allocates %v times", n)
	}
	if n := e.shadow.same.Load() - before; n != 11 {
		t.Errorf("the CPU repeated %d of 11 chunks (%v)", n, e.health.err())
	}
}
