//go:build gpu

package cuda

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
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
func gpu(t testing.TB) *Context {
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
func stream(t testing.TB, c *Context) *Stream {
	t.Helper()
	s := got(c.NewStream(0))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// kernel returns a kernel of add.ptx.
func kernel(t testing.TB, c *Context, name string) *Function {
	t.Helper()
	m := got(c.Load([]byte(ptx)))(t)
	t.Cleanup(func() { m.Close() })
	return got(m.Function(name))(t)
}

// pinned returns registered memory.
func pinned(t testing.TB, c *Context, size int) *HostMemory {
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

// A kernel in a context of a partition stays on its multiprocessors, wherever its
// code was loaded.
func TestGPUPartition(t *testing.T) {
	c := gpu(t)
	parts, rest, err := c.Device().Split(2, 16)
	if c.drv.Version() < symbols[cuDeviceGetDevResource].abi {
		failsWith(t, err, "update the driver")
		return
	}
	must(t, err)
	whole := got(c.Device().Attribute(Multiprocessors))(t)
	if len(parts) != 2 || parts[0].Multiprocessors() < 16 || 2*parts[0].Multiprocessors()+rest.Multiprocessors() > whole {
		t.Fatalf("%d parts of %d and a rest of %d, of %d", len(parts), parts[0].Multiprocessors(), rest.Multiprocessors(), whole)
	}
	fn := kernel(t, c, "stay")
	taken := map[int]bool{}
	for _, part := range append(parts, rest) {
		green := got(part.NewContext())(t)
		defer green.Close()
		must(t, green.Do(func() error {
			s := got(green.NewStream(0))(t)
			defer s.Close()
			seen := words(t, green, make([]uint32, 256)...)
			l := got(NewLaunch(fn, &stayParams{Seen: seen.Ptr(), Cycles: 100_000}))(t)
			l.Grid, l.Block = Dim{X: uint32(4 * whole)}, Dim{X: 1024}
			must(t, l.Enqueue(s))
			must(t, s.Synchronize())
			b := make([]byte, 4*256)
			must(t, seen.Read(0, b))
			n := 0
			for sm := range 256 {
				if b[4*sm] != 0 {
					n++
					if taken[sm] {
						t.Errorf("multiprocessor %d is in two partitions", sm)
					}
					taken[sm] = true
				}
			}
			if n != part.Multiprocessors() {
				t.Errorf("ran on %d multiprocessors, the partition has %d", n, part.Multiprocessors())
			}
			return nil
		}))
	}
}

// What a router does while a kernel is resident must not wait for it to end.
func TestGPUBesideAResidentKernel(t *testing.T) {
	c := gpu(t)
	long, s := stream(t, c), stream(t, c)
	h := pinned(t, c, 4096)
	more := got(unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	m := got(c.Load([]byte(ptx)))(t)
	t.Cleanup(func() { m.Close() })
	mem := words(t, c, make([]uint32, 256)...)
	stay := got(NewLaunch(got(m.Function("stay"))(t), &stayParams{Seen: mem.Ptr(), Cycles: 2_000_000_000}))(t) // a second
	stay.Grid, stay.Block = Dim{X: 1}, Dim{X: 1}
	must(t, stay.Enqueue(long))

	add := got(NewLaunch(got(m.Function("add"))(t), &addParams{A: h.Ptr(), B: h.Ptr(), Sum: h.Ptr(), N: 1}))(t)
	add.Grid, add.Block = Dim{X: 1}, Dim{X: 32}
	must(t, add.Enqueue(s))
	must(t, s.CopyToDevice(mem.Ptr(), h, 0, 64))
	must(t, s.CopyToHost(h, 64, mem.Ptr(), 64))
	must(t, s.Fill(mem.Ptr(), 0, 64))
	must(t, s.Synchronize())
	must(t, mem.Write(0, make([]byte, 64)))
	other := got(c.NewStream(0))(t)
	must(t, other.Close())
	event := got(c.NewEvent())(t)
	must(t, event.Close())
	allocated := got(c.Alloc(1 << 20))(t)
	registered := got(c.Register(more))(t)
	if got(long.Done())(t) {
		t.Error("the resident kernel has ended: something waited for it")
	}
	must(t, long.Synchronize())
	must(t, allocated.Close())
	must(t, registered.Close())
	must(t, unix.Munmap(more))
}

func TestGPUThreadWithoutContext(t *testing.T) {
	c := gpu(t)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread of its own, that ends here
		_, err := c.Alloc(4096)
		failed <- err
	}()
	failsWith(t, <-failed, "CUDA_ERROR_INVALID_CONTEXT, 201", "call Context.Bind")
}

// A fault takes the process's use of the GPU with it, so it has one of its own.
func TestGPUFault(t *testing.T) {
	if os.Getenv("CUDA_TEST_FAULT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPUFault$", "-test.v")
		cmd.Env = append(os.Environ(), "CUDA_TEST_FAULT=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c := gpu(t)
	s := got(c.NewStream(0))(t)
	l := got(NewLaunch(got(got(c.Load([]byte(ptx)))(t).Function("stray"))(t), &struct{}{}))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 1}
	must(t, l.Enqueue(s))
	err := s.Synchronize()
	failsWith(t, err, "wait for a stream: cuStreamSynchronize(stream=", "CUDA_ERROR_ILLEGAL_ADDRESS, 700", lost)
	if !Lost(err) {
		t.Error("Lost is false")
	}
	if _, err := c.Alloc(4096); !Lost(err) {
		t.Errorf("the context still works: %v", err)
	}
	must(t, c.Close())
	if _, err := c.Device().Retain(); !Lost(err) {
		t.Errorf("a new context can be made, so Lost need not be the end: %v", err)
	}
}

func BenchmarkGPU(b *testing.B) {
	c := gpu(b)
	s := stream(b, c)
	e := got(c.NewMark())(b)
	m := words(b, c, make([]uint32, 64)...)
	l := got(NewLaunch(kernel(b, c, "add"), &addParams{A: m.Ptr(), B: m.Ptr(), Sum: m.Ptr(), N: 1}))(b)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	for _, bb := range []struct {
		name string
		call func() error
	}{
		{"launch and synchronize", func() error { return errors.Join(l.Enqueue(s), s.Synchronize()) }},
		{"launch", func() error { return l.Enqueue(s) }},
		{"record", func() error { return e.Record(s) }},
		{"query", func() error { _, err := s.Done(); return err }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if err := bb.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		must(b, s.Synchronize())
	}
}
