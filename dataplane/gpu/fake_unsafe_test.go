package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/require"
)

// fake is struct state of testdata/fakecuda.c: a driver with two GPUs.
type fake struct {
	calls, failAt uint32
	fail, failed  [64]byte
	result        uint32
	held          int32
	running       [2]uint32
	faulted       uint32
	copies        uint32
	version       uint32
	mode, mps     uint32
	partitioned   uint32
	busy          uint32
	peers         uint32
	enabled       uint32
}

// newFake builds a driver for one test. Injected failures are OutOfMemory.
func newFake(t *testing.T) (f *fake, library string) {
	t.Helper()
	dir := t.TempDir()
	library = filepath.Join(dir, "libcuda.so.1")
	file := got(os.Create(filepath.Join(dir, "state")))(t)
	defer file.Close()
	require.NoError(t, file.Truncate(4096))
	mem := got(unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	f = (*fake)(unsafe.Pointer(&mem[0]))
	f.result = uint32(cuda.OutOfMemory)
	cmd := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", `-DSTATE="`+file.Name()+`"`, "-o", library, "testdata/fakecuda.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a fake driver (it needs a C compiler: apt-get install gcc libc6-dev): %v\n%s", err, out)
	}
	return f, library
}

// failNext makes the next call of a function fail.
func (f *fake) failNext(name string) { copy(f.fail[:], name+"\x00") }

// takeFailed returns the function that failed, as errors name it, and forgets it; "" without a failure.
func (f *fake) takeFailed() string {
	name := unix.ByteSliceToString(f.failed[:])
	f.failed[0] = 0
	return strings.TrimSuffix(name, "_v2")
}

// onDevice returns memory of a fake device.
func onDevice[T any](at cuda.DevicePtr, n int) []T {
	return unsafe.Slice(*(**T)(unsafe.Pointer(&at)), n)
}
