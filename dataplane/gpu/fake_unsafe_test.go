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
)

// fake is testdata/fakecuda.c's struct state: a driver with two GPUs.
type fake struct {
	calls, failAt uint32
	fail, failed  [64]byte
	result        uint32
	held          int32
	running       [2]uint32
	faulted       uint32
	copies        uint32
}

// newFake builds a driver of its own for a test. It fails with OutOfMemory.
func newFake(t *testing.T) (f *fake, library string) {
	t.Helper()
	dir := t.TempDir()
	library = filepath.Join(dir, "libcuda.so.1")
	file, err := os.Create(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	f = (*fake)(unsafe.Pointer(&mem[0]))
	f.result = uint32(cuda.OutOfMemory)
	cmd := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", `-DSTATE="`+file.Name()+`"`, "-o", library, "testdata/fakecuda.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a fake driver (it needs a C compiler: apt-get install gcc libc6-dev): %v\n%s", err, out)
	}
	return f, library
}

// failNext has the next call of a function fail.
func (f *fake) failNext(name string) { copy(f.fail[:], name+"\x00") }

// whatFailed is the function whose call did, as errors name it; "" if none did. It
// is forgotten with that.
func (f *fake) whatFailed() string {
	name := unix.ByteSliceToString(f.failed[:])
	f.failed[0] = 0
	return strings.TrimSuffix(name, "_v2")
}

// onDevice is memory of a fake device.
func onDevice[T any](at cuda.DevicePtr, n int) []T {
	return unsafe.Slice(*(**T)(unsafe.Pointer(&at)), n)
}
