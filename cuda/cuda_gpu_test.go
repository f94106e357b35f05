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

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// The tests named TestGPU need an NVIDIA GPU and its driver. They run from a compiled test binary
// (make test-gpu).

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
	require.NoError(t, c.Bind())
	return c
}

// stream returns a stream for one test.
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
	for f := range d.all {
		if f.address == 0 {
			if d.Version() >= f.abi {
				t.Errorf("%s is missing, and requires CUDA %v", f.name, f.abi)
			}
			t.Logf("%s is missing", f.name)
		}
	}
}

func TestGPUInfo(t *testing.T) {
	c := gpu(t)
	info := got(c.Device().Info())(t)
	t.Logf("%+v", info)
	if info.Name == "" || info.Multiprocessors < 1 || info.ClockKHz < 100_000 || info.MemoryBytes < 1<<30 || info.L2Bytes < 1<<20 ||
		info.AsyncEngines < 1 || !info.HostRegister || info.Compute < "8.0" {
		t.Error("the GPU is not supported")
	}
	if _, err := os.Stat("/sys/bus/pci/devices/" + info.PCIBusID); err != nil {
		t.Error(err)
	}
	free, total, err := c.MemoryInfo()
	require.NoError(t, err)
	if free == 0 || free > total || total > info.MemoryBytes {
		t.Errorf("%d of %d bytes free, %d in all", free, total, info.MemoryBytes)
	}
	_, err = c.Device().Attribute(9999)
	if !errors.Is(err, InvalidValue) {
		t.Errorf("an unknown attribute: %v", err)
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
	require.NoError(t, s.Fill(m.Ptr(), 0xee, 1<<20))
	require.NoError(t, s.CopyToDevice(m.Ptr(), h, 0, 1<<19))
	require.NoError(t, s.Copy(m.Ptr().Add(1<<19), m.Ptr(), 1<<18))
	require.NoError(t, s.Fill32(m.Ptr().Add(1<<20-8), 0x01020304, 1))
	require.NoError(t, s.CopyToHost(h, 0, m.Ptr(), 1<<20))
	require.NoError(t, s.Synchronize())
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
	require.NoError(t, err)
	if at == 0 || size != 48 {
		t.Errorf("table is %d bytes at %#x", size, at)
	}
	_, err = m.Function("subtract")
	if !errors.Is(err, NotFound) {
		t.Errorf("an unknown kernel: %v", err)
	}
	_, err = c.Load([]byte(strings.Replace(ptx, "add.u32 %x, %x, %y", "add.u32 %x, %x, %z", 1)))
	t.Log(err)
	failsWith(t, err, "CUDA_ERROR_INVALID_PTX, 218", "ptxas", "%z")
}
