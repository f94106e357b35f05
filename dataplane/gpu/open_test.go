package gpu

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// openFirst opens the first GPU alone.
func openFirst(base *fib.FIB, o Options) (*Device, error) {
	found, err := find(o.Library, 1)
	if err != nil {
		return nil, err
	}
	return open(found[0], 0, base, o)
}

// newBase returns a base with a route of each family.
func newBase(t *testing.T) *fib.FIB {
	t.Helper()
	base := fib.New(1)
	id, err := base.NewNextHop(fib.KindBlackhole)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(base.IPv4.Insert(netip.MustParsePrefix("192.0.2.0/24"), id), base.IPv6.Insert(netip.MustParsePrefix("2001:db8::/32"), id)); err != nil {
		t.Fatal(err)
	}
	return base
}

// newFrames returns memory for frames.
func newFrames(t *testing.T) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// Whichever call of the driver's fails while a device is opened and an engine made,
// the error names it, and everything that the driver gave is given back.
func TestEveryCallMayFail(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), newFrames(t)
	for _, mode := range []Mode{Resident, Launched} {
		start := func() error {
			d, err := openFirst(base, Options{Library: library, Mode: mode})
			if err != nil {
				return err
			}
			_, err = d.NewEngine(mem, 2, 100, cpu.New(base, mem, make([]bool, 1)))
			f.failAt = 0 // what Close calls is another matter
			return errors.Join(err, d.Close())
		}
		calls := map[string]bool{}
		for n := uint32(1); ; n++ {
			f.calls, f.failAt = 0, n
			err := start()
			call := f.whatFailed()
			if call == "" {
				if err != nil {
					t.Errorf("%s: nothing fails, yet: %v", mode, err)
				}
				break
			}
			calls[call] = true
			if err == nil || !errors.Is(err, cuda.OutOfMemory) || !strings.Contains(err.Error(), call+"(") {
				t.Errorf("%s: call %d, %s, fails; the error is %v", mode, n, call, err)
			}
			if f.held != 0 {
				t.Fatalf("%s: after call %d, %s, failed, %d things are not given back", mode, n, call, f.held)
			}
		}
		if f.held != 0 {
			t.Errorf("%s: %d things are not given back", mode, f.held)
		}
		for _, call := range []string{
			"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc",
			"cuMemcpyHtoD", "cuMemHostRegister", "cuMemHostGetDevicePointer", "cuStreamCreateWithPriority", "cuCtxSetCurrent", "cuMemcpyHtoDAsync", "cuLaunchKernel",
		} {
			if !calls[call] {
				t.Errorf("%s: %s was never called", mode, call)
			}
		}
	}
}

// A device on which something does not end in time keeps what it holds, and says so.
func TestWhatRunsIsNotGivenBack(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), newFrames(t)
	d, err := openFirst(base, Options{Library: library})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.NewEngine(mem, 2, 100, cpu.New(base, mem, make([]bool, 1))); err != nil {
		t.Fatal(err)
	}
	f.running[0] = 2
	held := f.held
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "end what runs on GPU 0: it did not finish within 1s") {
		t.Errorf("close: %v", err)
	}
	if f.held != held {
		t.Errorf("%d things were given back that kernels may use", held-f.held)
	}
}
