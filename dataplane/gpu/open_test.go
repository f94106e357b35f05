package gpu

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// openFirst opens the first GPU.
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
	id := got(base.NewNextHop(fib.KindBlackhole))(t)
	require.NoError(t, errors.Join(base.IPv4.Insert(netip.MustParsePrefix("192.0.2.0/24"), id), base.IPv6.Insert(netip.MustParsePrefix("2001:db8::/32"), id)))
	return base
}

// failEachCall repeats start and fails each of its driver calls, in turn: the error names the call, and
// no resource stays open. It returns the names of the calls.
func (f *fake) failEachCall(t *testing.T, start func() error) map[string]bool {
	t.Helper()
	calls := map[string]bool{}
	for n := uint32(1); ; n++ {
		f.calls, f.failAt = 0, n
		err := start()
		call := f.takeFailed()
		if f.held != 0 {
			t.Fatalf("after call %d, %s, failed, %d resources are not freed", n, call, f.held)
		}
		if call == "" {
			if err != nil {
				t.Errorf("after %d calls nothing fails, yet: %v", n, err)
			}
			return calls
		}
		calls[call] = true
		if err == nil || !errors.Is(err, cuda.OutOfMemory) || !strings.Contains(err.Error(), call+"(") {
			t.Errorf("call %d, %s, fails; the error is %v", n, call, err)
		}
	}
}

// TestFailedOpenFreesAll fails each driver call of opening a device and its engine.
func TestFailedOpenFreesAll(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	start := func() error {
		d, err := openFirst(base, Options{Library: library})
		if err != nil {
			return err
		}
		_, err = d.NewEngine(mem, 2, 100, cpu.New(base, mem, make([]bool, 1)))
		f.failAt = 0 // not for Close
		return errors.Join(err, d.Close())
	}
	calls := f.failEachCall(t, start)
	for _, call := range []string{
		"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc",
		"cuMemcpyHtoD", "cuMemHostRegister", "cuMemHostGetDevicePointer", "cuStreamCreateWithPriority", "cuCtxSetCurrent", "cuMemcpyHtoDAsync", "cuLaunchKernel",
	} {
		if !calls[call] {
			t.Errorf("%s was never called", call)
		}
	}
}

func TestCloseReportsRunningKernels(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	d := got(openFirst(base, Options{Library: library}))(t)
	if _, err := d.NewEngine(mem, 2, 100, cpu.New(base, mem, make([]bool, 1))); err != nil {
		t.Fatal(err)
	}
	f.running[0] = 2
	held := f.held
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "end the kernel of GPU 0: not finished within 1s") {
		t.Errorf("close: %v", err)
	}
	if f.held != held {
		t.Errorf("%d resources of running kernels were freed", held-f.held)
	}
}
