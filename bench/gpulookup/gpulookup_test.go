package gpulookup

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/lookup/device"
)

// fakeGPU builds a fake driver that runs the kernels' code on the host. The kernel named fault
// returns wrong results.
func fakeGPU(t *testing.T, fault string) string {
	t.Helper()
	return testutil.FakeGPU(t, "testdata/fakegpu.c", fault)
}

func options(t *testing.T, table string, f routes.Family) Options {
	t.Helper()
	set, err := routes.New(table, f, 500, 1)
	require.NoError(t, err)
	return Options{
		Routes: set, Destinations: []string{"table", "uniform"}, Addresses: 3*smallChunk - 1,
		Rounds: 1, Duration: time.Nanosecond, Seed: 1,
	}
}

func TestRunVerifiesAndMeasuresEveryMethod(t *testing.T) {
	lib := fakeGPU(t, "")
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		for _, table := range []string{"internet", "nested"} {
			o := options(t, table, f)
			o.Driver = lib
			r, err := Run(context.Background(), o)
			require.NoError(t, err)
			if r.Addresses != 3*smallChunk || r.Verified < 2*r.Addresses || r.Device != "Fake 0" || r.TableBytes < 64<<20 {
				t.Errorf("%v %s: %+v", f, table, r)
			}
			if len(r.Rates) != 2*6 {
				t.Errorf("%v %s: %d rates, want those of 6 methods for 2 kinds of destinations", f, table, len(r.Rates))
			}
			for _, rate := range r.Rates {
				if len(rate.Rounds) != 1 || rate.Median() <= 0 || rate.Limit <= 0 && rate.Method != "device, constant table" {
					t.Errorf("%v %s: %+v", f, table, rate)
				}
			}
		}
	}
}

func TestRunDetectsWrongKernelBeforeMeasuring(t *testing.T) {
	for kernel, f := range map[string]routes.Family{"lookup4": routes.IPv4, "resident4": routes.IPv4, "lookup6": routes.IPv6, "resident6": routes.IPv6} {
		o := options(t, "internet", f)
		o.Driver = fakeGPU(t, kernel)
		_, err := Run(context.Background(), o)
		name := map[bool]string{true: "device", false: "resident, chunks of 16 Ki"}[strings.HasPrefix(kernel, "lookup")]
		if err == nil || !strings.Contains(err.Error(), "verify "+name+": ") || !strings.Contains(err.Error(), "of the samples)") {
			t.Errorf("wrong %s: %v", kernel, err)
		}
	}
}

func TestRunWithoutDriverReportsHint(t *testing.T) {
	o := options(t, "internet", routes.IPv4)
	o.Driver = filepath.Join(t.TempDir(), "libcuda.so.1")
	_, err := Run(context.Background(), o)
	if !errors.Is(err, cuda.ErrNoDriver) || !strings.Contains(err.Error(), "measure lookups on a GPU: ") || !strings.Contains(err.Error(), "install NVIDIA's driver") {
		t.Errorf("without a driver: %v", err)
	}
}

func TestRunStopsWhenInterrupted(t *testing.T) {
	o := options(t, "internet", routes.IPv4)
	o.Driver = fakeGPU(t, "")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupted by a test"))
	if _, err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), "interrupted by a test") {
		t.Errorf("after an interrupt: %v", err)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no routes":          func(o *Options) { o.Routes = routes.FromPrefixes(routes.IPv4, "empty", "", nil, 1) },
		"no rounds":          func(o *Options) { o.Rounds = 0 },
		"no time":            func(o *Options) { o.Duration = 0 },
		"no destinations":    func(o *Options) { o.Destinations = nil },
		"too many addresses": func(o *Options) { o.Addresses = MaxAddresses + 1 },
	} {
		o := options(t, "internet", routes.IPv4)
		change(&o)
		if _, err := Run(context.Background(), o); err == nil || errors.Is(err, cuda.ErrNoDriver) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestColumnsStoreAddresses(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, f := range []family{ipv4, ipv6} {
		const n = 100
		w := &workload{family: f, n: n, addresses: &device.Pinned{Bytes: make([]byte, n*f.bytes)}}
		if f.lower {
			w.lowers = &device.Pinned{Bytes: make([]byte, n*lowerBytes)}
		}
		addrs := make([]netip.Addr, n)
		for i := range addrs {
			b := make([]byte, f.Bits()/8)
			for k := range b {
				b[k] = byte(rnd.Uint32())
			}
			addrs[i], _ = netip.AddrFromSlice(b)
			w.put(i, addrs[i])
		}
		for i, a := range addrs {
			if got := w.addr(i); got != a {
				t.Errorf("number %d is %v, want %v", i, got, a)
			}
		}
	}
	w := &workload{family: ipv4, addresses: &device.Pinned{Bytes: make([]byte, 8)}}
	w.put(1, netip.MustParseAddr("192.0.2.1"))
	if got := binary.NativeEndian.Uint32(w.addresses.Bytes[4:]); got != 0xc0000201 {
		t.Errorf("192.0.2.1 is %#x", got)
	}
	w = &workload{family: ipv6, addresses: &device.Pinned{Bytes: make([]byte, 16)}, lowers: &device.Pinned{Bytes: make([]byte, 16)}}
	w.put(1, netip.MustParseAddr("2001:db8::1"))
	upper, lower := binary.NativeEndian.Uint64(w.addresses.Bytes[8:]), binary.NativeEndian.Uint64(w.lowers.Bytes[8:])
	if upper != 0x20010db8_00000000 || lower != 1 {
		t.Errorf("2001:db8::1 is %#x and %#x", upper, lower)
	}
}

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Resident kernels: kernels.go.")
	h.Define("RESIDENT_THREADS", residentThreads, "of a resident block")
	h.Define("STOP", stop, "as a chunk number: the block exits")
	h.Define("LINE_BYTES", lineBytes, "stride of doorbells, and of done words: two cache lines")
	h.Check(t, "layout.h")
	if smallChunk%(threads*each) != 0 || smallChunk%(residentThreads*each) != 0 || largeChunk%smallChunk != 0 {
		t.Error("a chunk is not a multiple of the addresses per block and step")
	}
}
