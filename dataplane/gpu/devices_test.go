package gpu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// openFakes opens the fake driver's two GPUs for one test.
func openFakes(t *testing.T, f *fake, base *fib.FIB, o Options) *Devices {
	t.Helper()
	s := got(OpenAll(base, o))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil || f.held != 0 {
			t.Errorf("close: %v, %d resources left", err, f.held)
		}
	})
	return s
}

// TestWorkersAreSpreadRoundRobin: a full device is skipped.
func TestWorkersAreSpreadRoundRobin(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	s := openFakes(t, f, base, Options{Library: library, Workers: 6})
	if len(s.All) != 2 || s.All[0].kernel.pool.blocks != 38 {
		t.Fatalf("%d devices, %d slots on the first; want 2 and 38", len(s.All), s.All[0].kernel.pool.blocks)
	}
	for i, want := range [][2]int{{1, 0}, {1, 1}, {2, 1}, {2, 2}, {3, 2}} {
		if _, err := s.NewEngine(mem, 8, 100, cpu.New(base, mem, make([]bool, 1))); err != nil {
			t.Fatal(err)
		}
		if got := [2]int{len(s.All[0].engines), len(s.All[1].engines)}; got != want {
			t.Errorf("%d workers are spread as %v, want %v", i+1, got, want)
		}
	}
	for i, want := range []State{{Number: 0, Blocks: 38, Awake: minAwakeBlocks, Wakes: 3, Workers: 3}, {Number: 1, Blocks: 38, Awake: minAwakeBlocks, Wakes: 2, Workers: 2}} {
		d := s.All[i]
		want.Info, want.Sharing, want.Multiprocessors, want.Shape = d.info, d.sharing, 10, d.shape
		if got := s.States()[i]; got != want {
			t.Errorf("state %+v, want %+v", got, want)
		}
	}
	s.All[1].engines = append(s.All[1].engines, make([]*Engine, maxWorkers-2)...) // it is full
	if _, err := s.NewEngine(mem, 8, 100, cpu.New(base, mem, make([]bool, 1))); err != nil || len(s.All[0].engines) != 4 {
		t.Errorf("the first device has %d workers, want 4: %v", len(s.All[0].engines), err)
	}
	s.All[0].engines = append(s.All[0].engines, make([]*Engine, maxWorkers-4)...)
	if _, err := s.NewEngine(mem, 8, 100, cpu.New(base, mem, make([]bool, 1))); err == nil || !strings.Contains(err.Error(), "257 workers on a GPU") {
		t.Errorf("one worker too many: %v", err)
	}
}

// TestUnusableDevicesAreReported: the other GPUs are used; without any, the error names all. At most
// one GPU per worker is opened.
func TestUnusableDevicesAreReported(t *testing.T) {
	f, library := newFake(t)
	base := newBase(t)
	f.failNext("cuModuleLoadDataEx")
	s := openFakes(t, f, base, Options{Library: library, Workers: 3})
	if len(s.All) != 1 || s.All[0].number != 1 {
		t.Errorf("%d devices, want GPU 1 alone", len(s.All))
	}
	if len(s.Unusable) != 1 || !strings.HasPrefix(s.Unusable[0].Error(), "use GPU 0: load ") || !strings.Contains(s.Unusable[0].Error(), "cuModuleLoadDataEx(") {
		t.Errorf("unusable: %v", s.Unusable)
	}
	held := f.held
	one := got(OpenAll(base, Options{Library: library, Workers: 1}))(t)
	if len(one.All) != 1 || one.All[0].number != 0 || len(one.Unusable) != 0 {
		t.Errorf("for one worker: %d devices, unusable %v", len(one.All), one.Unusable)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string][]string{
		"no room for all":        {"600 workers: 512 fit on 2 GPUs; set fewer workers"},
		"no room and one failed": {"600 workers:", "256 fit on 1 GPUs", "; use GPU 0: ", "cuMemGetInfo"},
		"the driver fails":       {"count GPUs: cuDeviceGetCount("},
	} {
		o := Options{Library: library, Workers: 600}
		switch name {
		case "no room and one failed":
			f.failNext("cuMemGetInfo_v2")
		case "the driver fails":
			f.failNext("cuDeviceGetCount")
		}
		_, err := OpenAll(base, o)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", name, err, part)
			}
		}
		if f.held != held {
			t.Errorf("%s: %d resources are not freed", name, f.held-held)
		}
	}
	if _, err := OpenAll(base, Options{Library: "/nonexistent/libcuda.so.1"}); !errors.Is(err, ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}

// TestOptionGPUs: fewer GPUs, or an unusable one, are errors.
func TestOptionGPUs(t *testing.T) {
	f, library := newFake(t)
	base := newBase(t)
	for _, o := range []Options{{GPUs: 1, Workers: 3}, {GPUs: 2, Workers: 3}, {GPUs: 2, Workers: 1}, {GPUs: 1}} {
		o.Library = library
		s := got(OpenAll(base, o))(t)
		if len(s.All) != o.GPUs || s.All[0].number != 0 {
			t.Errorf("%d devices, %d requested", len(s.All), o.GPUs)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for call, o := range map[string]Options{
		"":                     {GPUs: 3, Workers: 3},
		"cuModuleLoadDataEx":   {GPUs: 2, Workers: 3},
		"cuMemGetInfo_v2":      {GPUs: 1, Workers: 1},
		"cuDeviceGetAttribute": {GPUs: 2},
	} {
		o.Library = library
		want := "use GPU 0: "
		if f.failNext(call); call == "" {
			want = "3 requested, the CUDA driver has 2"
		}
		if _, err := OpenAll(base, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d GPUs, %s fails: %v", o.GPUs, call, err)
		}
		if f.held != 0 {
			t.Errorf("%d GPUs, %s fails: %d resources are not freed", o.GPUs, call, f.held)
		}
	}
}

func TestEveryDeviceHasEveryChange(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base, rnd := newBase(t), rand.New(rand.NewPCG(1, 1))
	s := openFakes(t, f, base, Options{Library: library})
	prefix := func() netip.Prefix {
		var a [16]byte
		for i := range a {
			a[i] = byte(rnd.IntN(4))
		}
		if rnd.IntN(2) == 0 {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte(a[:])), 8+rnd.IntN(25)).Masked()
		}
		return netip.PrefixFrom(netip.AddrFrom16(a), 8+rnd.IntN(121)).Masked()
	}
	table := func(p netip.Prefix) interface {
		Insert(netip.Prefix, lookup.NextHopID) error
		Delete(netip.Prefix) bool
	} {
		if p.Addr().Is4() {
			return base.IPv4
		}
		return base.IPv6
	}
	for i := range 500 {
		adj := got(base.NewAdjacency(uint16(i % 8)))(t)
		base.SetAdjacency(adj, uint16(i%8), fib.MAC(rnd.Uint64N(1<<48)))
		base.SetPort(uint16(i%8), fib.MAC(rnd.Uint64N(1<<48)), 1500)
		base.SetRPF(uint16(i%8), fib.RPF{IPv4: fib.RPFMode(rnd.IntN(3)), IPv6: fib.RPFMode(rnd.IntN(3))})
		id := got(base.NewNextHop(fib.KindForward, []fib.Path{{Adjacency: adj, Weight: 1}, {Adjacency: 1, Weight: 1}}[:1+i%2]...))(t)
		p := prefix()
		require.NoError(t, table(p).Insert(p, id))
		gone := prefix()
		table(gone).Delete(gone)
		base.Commit()
	}
	w := base.Words()
	for _, d := range s.All {
		d.tables.patcher.drain()
		at := d.tables.arrays
		if !slices.Equal(onDevice[uint64](at[fib.NextHops].at, len(w.NextHops)), w.NextHops) ||
			!slices.Equal(onDevice[uint32](at[fib.Groups].at, len(w.Groups)), w.Groups) ||
			!slices.Equal(onDevice[uint64](at[fib.Adjacencies].at, len(w.Adjacencies)), w.Adjacencies) ||
			!slices.Equal(onDevice[uint64](at[fib.Ports].at, len(w.Ports)), w.Ports) ||
			!slices.Equal(onDevice[uint32](at[fib.Ingress].at, len(w.Ingress)), w.Ingress) {
			t.Errorf("GPU %d: the arrays differ from the FIB's", d.number)
		}
		for i, view := range []func(func([]uint32) error) error{base.IPv4.View, base.IPv6.View} {
			_ = view(func(words []uint32) error {
				words = slices.Clone(words)
				words[trie.Generation] = 0 // devices have the generation instead
				im := &d.tables.images[i]
				buffer := onDevice[cuda.DevicePtr](im.pointerAt, 1)[0]
				if buffer != im.buffers[im.active].at || !bytes.Equal(bytesOf(onDevice[uint32](buffer, len(words))), bytesOf(words)) {
					t.Errorf("GPU %d: the %s table differs from the FIB's", d.number, im.family)
				}
				return nil
			})
		}
	}
}

// TestDeviceFailuresAreIndependent: a timeout moves the worker of one GPU to the CPU, a driver error is
// final, and the other GPU's worker stays.
func TestDeviceFailuresAreIndependent(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	s := got(OpenAll(base, Options{Library: library, Workers: 2, Timeout: 100 * time.Millisecond, Limit: 100 * time.Millisecond, Pause: pause}))(t)
	chunks := batch.NewChunks(2, maxChunk)
	var engines []*Engine
	var blocks []*block
	for i := range 2 {
		e := got(s.NewEngine(mem, 1, maxChunk, cpu.New(base, mem, make([]bool, 16))))(t)
		b, ended := runBlocks(e.mailbox, mem)
		engines, blocks = append(engines, e), append(blocks, b[0])
		atomic.StoreUint32(&f.running[i], 1)
		go func() {
			ended.Wait()
			atomic.StoreUint32(&f.running[i], 0)
		}()
		if by := execute(t, e, chunks[i]); by != "gpu" {
			t.Fatalf("worker %d: executed by %s", i, by)
		}
	}
	expect := func(name string, want State, why string) {
		t.Helper()
		got := s.States()[0]
		want.Sharing, want.Multiprocessors, want.Shape = got.Sharing, got.Multiprocessors, got.Shape
		want.Info, want.Blocks, want.Workers, want.Wakes, want.Awake = got.Info, 38, 1, 1, got.Awake
		o := got.Outage
		got.ByCPU, got.Outage = 0, nil // as many as the pause takes
		got.Times, got.Load = want.Times, want.Load
		if got != want {
			t.Errorf("%s: state %+v, want %+v", name, got, want)
		}
		if why == "" && o != nil || why != "" && (o == nil || !strings.Contains(o.Why.Error(), why) || time.Since(o.Since) > time.Minute) {
			t.Errorf("%s: outage %+v, want %q", name, o, why)
		}
		if by := execute(t, engines[1], chunks[1]); by != "gpu" || s.States()[1].Outage != nil {
			t.Errorf("%s: the other worker's chunk is decided by the %s, outage %v", name, by, s.States()[1].Outage)
		}
	}
	const timeout = "GPU timeout: 3 packets not finished within 100ms"
	expect("before", State{ByGPU: 1}, "")
	if err := s.Err(); err != nil {
		t.Errorf("before: %v", err)
	}
	blocks[0].hang.Store(true)
	if by := execute(t, engines[0], chunks[0]); by != "lost" {
		t.Fatalf("what it had is decided by the %s", by)
	}
	expect("timeout", State{ByGPU: 1, WorkersOut: 1, Lost: 1, Timeouts: 1, Cause: CauseTimeout}, timeout)
	if err := s.Err(); err == nil || err.Error() != "GPU 0: "+timeout {
		t.Errorf("timeout: %v", err)
	}
	blocks[0].hang.Store(false)
	for execute(t, engines[0], chunks[0]) == "cpu" {
		time.Sleep(time.Millisecond)
	}
	expect("back", State{ByGPU: 2, Timeouts: 1, Recoveries: 1}, "")

	blocks[0].hang.Store(true)
	if by := execute(t, engines[0], chunks[0]); by != "lost" {
		t.Fatalf("what it had is decided by the %s", by)
	}
	atomic.StoreUint32(&f.faulted, 1) // on the other one too, which has reported nothing yet
	expect("fault", State{ByGPU: 2, WorkersOut: 1, Lost: 1, Timeouts: 2, Recoveries: 1, Failed: true, Cause: CauseFault}, timeout+": push a context: ")
	if err := s.All[0].Err(); err == nil || !errors.Is(err, cuda.IllegalAddress) || strings.Count(err.Error(), "ILLEGAL_ADDRESS") != 1 {
		t.Errorf("the device's error is %v", err)
	}
	<-s.All[0].destroyed
	if engines[0].Quiesced() {
		t.Error("quiesced, though the driver refused to destroy the context")
	}
	blocks[0].hang.Store(false)
	time.Sleep(4 * pause)
	if by := execute(t, engines[0], chunks[0]); by != "cpu" {
		t.Errorf("after a fault: executed by %s", by)
	}
	held := f.held
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "end the kernel of GPU 0: ") || f.held != held {
		t.Errorf("close: %v; %d resources freed", err, held-f.held)
	}
	atomic.StoreUint32(&f.faulted, 0)
	if err := s.Close(); err != nil || f.held != 0 {
		t.Errorf("close of healthy devices: %v, %d resources left", err, f.held)
	}
}
