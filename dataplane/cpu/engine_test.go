package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// world is an engine over a small network.
type world struct {
	t      testing.TB
	net    *testutil.Network
	engine *Engine
	mem    *umem.Memory
	chunk  *batch.Chunk
}

func newWorld(t testing.TB) *world {
	mem, err := umem.New(1024)
	if err != nil {
		t.Fatal(err)
	}
	slab, err := batch.NewSlab(1, 1024)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close(); slab.Close() })
	net := testutil.NewNetwork()
	return &world{t: t, net: net, engine: New(net.FIB, mem.Bytes(), net.Repair), mem: mem, chunk: slab.Chunks[0]}
}

// submit runs frames through the engine as one chunk, all from one port.
func (w *world) submit(port uint16, frames ...[]byte) []batch.Result {
	w.lay(port, frames...)
	w.engine.Submit(w.chunk)
	return w.chunk.Out[:len(frames)]
}

// lay lays frames out as a chunk.
func (w *world) lay(port uint16, frames ...[]byte) {
	for i, f := range frames {
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		copy(w.mem.Bytes()[addr:], f)
		w.chunk.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Port: port}
		w.chunk.Out[i] = batch.Result{Verdict: 0xffff}
	}
	w.chunk.N = len(frames)
}

func (w *world) bytes(r batch.Result) []byte { return w.mem.Bytes()[r.Addr:][:r.Len] }

func (w *world) received(i int) []byte {
	f := w.chunk.In[i]
	return w.mem.Bytes()[f.Addr:][:f.Len]
}

func to4(dst string) []byte { return testutil.UDP4("192.0.2.1", dst, 1000, 53, make([]byte, 40)...) }
func to6(dst string) []byte { return testutil.UDP6("2001:db8::1", dst, 1000, 53, make([]byte, 40)...) }

// Flows spread over the paths of a group, and every packet of one takes the same.
func TestMultipath(t *testing.T) {
	w := newWorld(t)
	for name, frame := range map[string]func(port uint16) []byte{
		"IPv4": func(p uint16) []byte { return testutil.UDP4("192.0.2.1", "10.5.0.1", p, 53) },
		"IPv6": func(p uint16) []byte { return testutil.UDP6("2001:db8::1", "fd05::1", p, 53) },
	} {
		var frames [][]byte
		for i := range 1000 {
			frames = append(frames, frame(uint16(i/2)))
		}
		count := map[uint16]int{}
		out := w.submit(1, frames...)
		for i, r := range out {
			count[r.Verdict.Port()]++
			if r.Verdict != out[i&^1].Verdict {
				t.Fatalf("%s: flow %d takes two paths", name, i/2)
			}
		}
		if count[1] < 400 || count[2] < 400 {
			t.Errorf("%s: 500 flows over two paths: %v", name, count)
		}
	}
}

func TestSubmitDoesNotAllocate(t *testing.T) {
	w := newWorld(t)
	frames := [][]byte{to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to6("fd05::9"), to4("10.4.0.1"), to4("172.16.0.1"), nil}
	w.submit(0, frames...)
	if n := testing.AllocsPerRun(100, func() { w.engine.Submit(w.chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// A packet's verdict does not depend on its neighbours in the chunk.
func TestPacketsDoNotDisturbEachOther(t *testing.T) {
	w := newWorld(t)
	rnd := rand.New(rand.NewPCG(4, 4))
	good := to4("10.1.0.9")
	var frames [][]byte
	for i := range 1000 {
		f := bytes.Clone(good)
		if i%2 == 1 {
			f = testutil.Mutate(rnd, [][]byte{good, to6("fd01::9")}[rnd.IntN(2)])
		}
		frames = append(frames, f)
	}
	for i, r := range w.submit(0, frames...) {
		if i%2 == 0 && r.Verdict != batch.Forward(1) {
			t.Fatalf("good packet %d among bad ones: %v", i, r.Verdict)
		}
	}
}
