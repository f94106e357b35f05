//go:build gpu

package cuda

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests named TestGPU need an NVIDIA GPU and its driver, and nothing else:
// they run from a compiled test binary (make test-gpu). Without a GPU they fail.

//go:embed testdata/add.ptx
var ptx string

// gpu returns a context on the first GPU, bound to the test's thread.
func gpu(t *testing.T) *Context {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	devices := got(got(Open(""))(t).Devices())(t)
	if len(devices) == 0 {
		t.Fatal("the driver has no GPU")
	}
	c := got(devices[0].Retain())(t)
	t.Cleanup(func() { c.Close() })
	must(t, c.Bind())
	return c
}

// stream returns a stream that ends with the test.
func stream(t *testing.T, c *Context) *Stream {
	t.Helper()
	s := got(c.NewStream(0))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// kernel returns a kernel of add.ptx.
func kernel(t *testing.T, c *Context, name string) *Function {
	t.Helper()
	m := got(c.Load([]byte(ptx)))(t)
	t.Cleanup(func() { m.Close() })
	return got(m.Function(name))(t)
}

// pinned returns registered memory.
func pinned(t *testing.T, c *Context, size int) *HostMemory {
	t.Helper()
	mem := got(unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	t.Cleanup(func() { unix.Munmap(mem) })
	h := got(c.Register(mem))(t)
	t.Cleanup(func() { h.Close() })
	return h
}

func TestGPUSymbols(t *testing.T) {
	d := got(Open(""))(t)
	t.Logf("driver for CUDA %v", d.Version())
	for s := range symbolCount {
		if d.fn[s] == 0 {
			if d.Version() >= symbols[s].abi {
				t.Errorf("%s is missing, and came with CUDA %v", symbols[s].name, symbols[s].abi)
			}
			t.Logf("%s is missing", symbols[s].name)
		}
	}
}

func TestGPUInfo(t *testing.T) {
	c := gpu(t)
	info := got(c.Device().Info())(t)
	t.Logf("%+v", info)
	if info.Name == "" || info.Multiprocessors < 1 || info.ClockKHz < 100_000 || info.MemoryBytes < 1<<30 || info.L2Bytes < 1<<20 ||
		info.AsyncEngines < 1 || !info.HostRegister || info.Compute < "8.0" {
		t.Error("that is no GPU for us")
	}
	if _, err := os.Stat("/sys/bus/pci/devices/" + info.PCIBusID); err != nil {
		t.Error(err)
	}
	free, total, err := c.MemoryInfo()
	must(t, err)
	if free == 0 || free > total || total > info.MemoryBytes {
		t.Errorf("%d of %d bytes free, %d in all", free, total, info.MemoryBytes)
	}
	_, err = c.Device().Attribute(9999)
	if !errors.Is(err, InvalidValue) {
		t.Errorf("an attribute that there is not: %v", err)
	}
}

func TestGPUMemoryRoundTrip(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	h := pinned(t, c, 1<<20)
	m := got(c.Alloc(1 << 20))(t)
	defer m.Close()
	for i := range h.Bytes() {
		h.Bytes()[i] = byte(i * 31 >> 3)
	}
	want := string(h.Bytes()[:1<<19])
	must(t, s.Fill(m.Ptr(), 0xee, 1<<20))
	must(t, s.CopyToDevice(m.Ptr(), h, 0, 1<<19))
	must(t, s.Copy(m.Ptr().Add(1<<19), m.Ptr(), 1<<18))
	must(t, s.Fill32(m.Ptr().Add(1<<20-8), 0x01020304, 1))
	must(t, s.CopyToHost(h, 0, m.Ptr(), 1<<20))
	must(t, s.Synchronize())
	b := h.Bytes()
	if string(b[:1<<19]) != want || string(b[1<<19:1<<19+1<<18]) != want[:1<<18] {
		t.Error("copies differ")
	}
	if binary.NativeEndian.Uint64(b[1<<20-8:]) != 0xeeeeeeee_01020304 {
		t.Errorf("fills are %x", b[1<<20-8:])
	}

	_, err := c.Alloc(1 << 50)
	failsWith(t, err, "out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)")
	_, err = c.Register(h.Bytes())
	failsWith(t, err, "register a mapping once")
}

func TestGPUModule(t *testing.T) {
	c := gpu(t)
	m := got(c.Load([]byte(ptx)))(t)
	defer m.Close()
	t.Logf("log: %q", m.Log())
	at, size, err := m.Global("table")
	must(t, err)
	if at == 0 || size != 48 {
		t.Errorf("table is %d bytes at %#x", size, at)
	}
	_, err = m.Function("subtract")
	if !errors.Is(err, NotFound) {
		t.Errorf("a kernel that there is not: %v", err)
	}
	_, err = c.Load([]byte(strings.Replace(ptx, "add.u32 %x, %x, %y", "add.u32 %x, %x, %z", 1)))
	t.Log(err)
	failsWith(t, err, "CUDA_ERROR_INVALID_PTX, 218", "ptxas", "%z")
}

func TestGPULaunch(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	fn := kernel(t, c, "add")
	a, b, sum := words(t, c, 1, 2, 3), words(t, c, 10, 20, 30), words(t, c, 0, 0, 7)
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 2}
	l := got(NewLaunch(fn, p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	must(t, l.Enqueue(s))
	must(t, s.Synchronize())
	holds(t, sum, 11, 22, 7)
	p.A, p.N = b.Ptr(), 3
	must(t, l.Enqueue(s))
	must(t, s.Synchronize())
	holds(t, sum, 20, 40, 60)

	_, err := NewLaunch(fn, &struct{ A, B, Sum, N DevicePtr }{})
	if fn.drv.Version() >= symbols[cuFuncGetParamInfo].abi {
		failsWith(t, err, "its parameter 3 has 4 bytes")
	}
	l.Block = Dim{X: 4096}
	failsWith(t, l.Enqueue(s), "launch kernel add: cuLaunchKernel(", "blockX=4096")
}

func TestGPUWritesHostMemory(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	h := pinned(t, c, 4096)
	for i := range uint32(256) {
		binary.NativeEndian.PutUint32(h.Bytes()[4*i:], i)
	}
	p := &addParams{A: h.Ptr(), B: h.Ptr(), Sum: h.Ptr().Add(2048), N: 256}
	l := got(NewLaunch(kernel(t, c, "add"), p))(t)
	l.Grid, l.Block = Dim{X: 2}, Dim{X: 128}
	must(t, l.Enqueue(s))
	must(t, s.Synchronize())
	for i := range uint32(256) {
		if v := binary.NativeEndian.Uint32(h.Bytes()[2048+4*i:]); v != 2*i {
			t.Fatalf("word %d is %d, want %d", i, v, 2*i)
		}
	}
}

type stayParams struct {
	Seen   DevicePtr
	Cycles uint64
}

func TestGPUTime(t *testing.T) {
	c := gpu(t)
	s, other := stream(t, c), stream(t, c)
	least, greatest, err := c.StreamPriorities()
	must(t, err)
	if greatest >= least {
		t.Errorf("priorities from %d to %d", least, greatest)
	}
	seen := got(c.Alloc(4096))(t)
	defer seen.Close()
	start, end := got(c.NewEvent())(t), got(c.NewEvent())(t)
	defer start.Close()
	defer end.Close()
	mark := got(c.NewMark())(t)
	defer mark.Close()
	stay := got(NewLaunch(kernel(t, c, "stay"), &stayParams{Seen: seen.Ptr(), Cycles: 50_000_000}))(t) // 20 ms and more
	stay.Grid, stay.Block = Dim{X: 1}, Dim{X: 1}
	must(t, start.Record(s))
	must(t, stay.Enqueue(s))
	must(t, end.Record(s))
	must(t, other.Wait(end))
	must(t, mark.Record(other))
	for name, done := range map[string]func() (bool, error){"stream": s.Done, "event": end.Done, "waiting stream": other.Done} {
		if got(done())(t) {
			t.Errorf("%s is done while the kernel runs", name)
		}
	}
	must(t, mark.Synchronize())
	if !got(s.Done())(t) || !got(end.Done())(t) {
		t.Error("not done, and what waited for it is")
	}
	took := got(end.Since(start))(t)
	t.Logf("50 million cycles took %v", took)
	if took < 10*time.Millisecond || took > 500*time.Millisecond {
		t.Errorf("50 million cycles took %v", took)
	}
}

func TestGPUGraph(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	h := pinned(t, c, 4096)
	for i := range uint32(16) {
		binary.NativeEndian.PutUint32(h.Bytes()[4*i:], i)
	}
	a, b, sum := got(c.Alloc(64))(t), words(t, c, make([]uint32, 16)...), got(c.Alloc(64))(t)
	defer a.Close()
	defer sum.Close()
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 16}
	l := got(NewLaunch(kernel(t, c, "add"), p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	g := got(s.Capture(func() error {
		return errors.Join(s.CopyToDevice(a.Ptr(), h, 0, 64), l.Enqueue(s), s.CopyToHost(h, 1024, sum.Ptr(), 64))
	}))(t)
	defer g.Close()
	sums := func() (v uint32) {
		must(t, g.Enqueue(s))
		must(t, s.Synchronize())
		return binary.NativeEndian.Uint32(h.Bytes()[1024+4*15:])
	}
	if v := sums(); v != 15 {
		t.Errorf("15 + 0 = %d", v)
	}
	binary.NativeEndian.PutUint32(h.Bytes()[4*15:], 100)
	if v := sums(); v != 100 {
		t.Errorf("100 + 0 = %d on the second replay", v)
	}
	p.B = a.Ptr()
	must(t, g.Update(l))
	if v := sums(); v != 200 {
		t.Errorf("100 + 100 = %d after an update", v)
	}
}

func TestGPUOccupancy(t *testing.T) {
	c := gpu(t)
	fn := kernel(t, c, "add")
	registers := got(fn.Attribute(FunctionRegisters))(t)
	threads := got(fn.Attribute(FunctionMaxThreads))(t)
	blocks := got(fn.BlocksPerMultiprocessor(256, 0))(t)
	t.Logf("%d registers, %d threads a block, %d blocks of 256 a multiprocessor", registers, threads, blocks)
	if registers < 1 || threads < 256 || blocks < 1 {
		t.Error("out of range")
	}
	optin := got(c.Device().Attribute(MaxSharedPerBlockOptin))(t)
	must(t, fn.SetAttribute(MaxDynamicShared, optin))
	if n := got(fn.BlocksPerMultiprocessor(256, optin))(t); n != 1 {
		t.Errorf("%d blocks with all of the shared memory", n)
	}
}

// A kernel in a context of a partition stays on its multiprocessors.
func TestGPUPartition(t *testing.T) {
	c := gpu(t)
	parts, rest, err := c.Device().Split(2, 16)
	if errors.Is(err, errors.ErrUnsupported) && c.drv.Version() < symbols[cuDeviceGetDevResource].abi {
		return // and the error's text is tested elsewhere
	}
	must(t, err)
	whole := got(c.Device().Attribute(Multiprocessors))(t)
	t.Logf("%d of %d and %d left of %d", len(parts), parts[0].Multiprocessors(), rest.Multiprocessors(), whole)
	taken := map[int]bool{}
	for _, part := range parts {
		green := got(part.NewContext())(t)
		defer green.Close()
		must(t, green.Do(func() error {
			for _, plain := range []bool{false, true} {
				var s *Stream
				if plain {
					s = &Stream{caller: caller{drv: c.drv}}
					if err := c.drv.call(cuStreamCreateWithPriority, &s.handle, streamNonBlocking, 0); err != nil {
						t.Logf("plain stream: %v", err)
						continue
					}
				} else {
					s = got(green.NewStream(0))(t)
				}
				seen := words(t, green, make([]uint32, 256)...)
				l := got(NewLaunch(kernel(t, green, "stay"), &stayParams{Seen: seen.Ptr(), Cycles: 100_000}))(t)
				l.Grid, l.Block = Dim{X: uint32(4 * whole)}, Dim{X: 32}
				must(t, l.Enqueue(s))
				must(t, s.Synchronize())
				b := make([]byte, 4*256)
				must(t, seen.Read(0, b))
				n := 0
				for sm := range 256 {
					if b[4*sm] == 0 {
						continue
					}
					n++
					if !plain && taken[sm] {
						t.Errorf("multiprocessor %d is in two partitions", sm)
					}
					taken[sm] = true
				}
				t.Logf("plain %v: ran on %d", plain, n)
				if n != part.Multiprocessors() {
					t.Errorf("ran on %d multiprocessors, the partition has %d", n, part.Multiprocessors())
				}
				must(t, s.Close())
			}
			// Code that the primary context loaded runs here as well.
			s := got(green.NewStream(0))(t)
			defer s.Close()
			var fn *Function
			var mem *Memory
			must(t, c.Do(func() error { fn, mem = kernel(t, c, "stay"), words(t, c, make([]uint32, 256)...); return nil }))
			l := got(NewLaunch(fn, &stayParams{Seen: mem.Ptr(), Cycles: 1}))(t)
			l.Grid, l.Block = Dim{X: 1}, Dim{X: 1}
			t.Logf("module of the primary context: launch %v, synchronize %v", l.Enqueue(s), s.Synchronize())
			return nil
		}))
	}
}

// The last test, by its name: it breaks the context, and mends it.
func TestGPUZFault(t *testing.T) {
	c := gpu(t)
	s := got(c.NewStream(0))(t)
	m := got(c.Load([]byte(ptx)))(t)
	l := got(NewLaunch(got(m.Function("stray"))(t), &struct{}{}))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 1}
	h := pinned(t, c, 4096)
	must(t, l.Enqueue(s))
	err := s.Synchronize()
	t.Log(err)
	failsWith(t, err, "wait for a stream: cuStreamSynchronize(stream=", "CUDA_ERROR_ILLEGAL_ADDRESS, 700", "the context is lost")
	if !ContextLost(err) {
		t.Error("ContextLost is false")
	}
	if _, err := c.Alloc(4096); !ContextLost(err) {
		t.Errorf("the context still works: %v", err)
	}

	begin := time.Now()
	t.Logf("close stream: %v", s.Close())
	t.Logf("unload: %v", m.Close())
	t.Logf("unregister: %v", h.Close())
	t.Logf("release: %v", c.Close())
	fresh, err := c.Device().Retain()
	t.Logf("retain: %v", err)
	if err == nil {
		t.Logf("bind: %v", fresh.Bind())
		_, err = fresh.Alloc(4096)
		t.Logf("alloc after release and retain: %v (%v)", err, time.Since(begin))
	}
	if err != nil {
		begin = time.Now()
		t.Logf("reset: %v", c.Device().Reset())
		if fresh, err = c.Device().Retain(); err == nil {
			t.Logf("bind: %v", fresh.Bind())
			_, err = fresh.Alloc(4096)
		}
		t.Logf("alloc after reset: %v (%v)", err, time.Since(begin))
	}
	must(t, err)
	h2, err := fresh.Register(h.Bytes())
	t.Logf("register again: %v", err)
	if err == nil {
		s2 := stream(t, fresh)
		p := &addParams{A: h2.Ptr(), B: h2.Ptr(), Sum: h2.Ptr().Add(64), N: 1}
		binary.NativeEndian.PutUint32(h2.Bytes(), 21)
		l := got(NewLaunch(kernel(t, fresh, "add"), p))(t)
		l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
		must(t, l.Enqueue(s2))
		must(t, s2.Synchronize())
		t.Logf("21+21=%d", binary.NativeEndian.Uint32(h2.Bytes()[64:]))
		must(t, h2.Close())
	}
	fresh.Close()
}

func TestGPUThreadWithoutContext(t *testing.T) {
	c := gpu(t)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread of its own, that ends here
		_, err := c.Alloc(4096)
		failed <- err
	}()
	err := <-failed
	t.Log(err)
	failsWith(t, err, "call Context.Bind")
}

func TestGPUHotCallTimes(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	m := words(t, c, make([]uint32, 64)...)
	l := got(NewLaunch(kernel(t, c, "add"), &addParams{A: m.Ptr(), B: m.Ptr(), Sum: m.Ptr(), N: 1}))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	for range 100 {
		must(t, l.Enqueue(s))
	}
	must(t, s.Synchronize())
	const n = 2000
	begin := time.Now()
	for range n {
		must(t, l.Enqueue(s))
		must(t, s.Synchronize())
	}
	t.Logf("launch and synchronize: %v", time.Since(begin)/n)
	begin = time.Now()
	for range 500 {
		must(t, l.Enqueue(s))
	}
	t.Logf("launch: %v", time.Since(begin)/500)
	must(t, s.Synchronize())
	begin = time.Now()
	for range n {
		got(s.Done())(t)
	}
	t.Logf("query: %v", time.Since(begin)/n)
}
