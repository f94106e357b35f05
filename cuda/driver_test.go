package cuda

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestSymbolTable(t *testing.T) {
	seen := map[string]bool{}
	for s := range symbolCount {
		row := symbols[s]
		if row.name == "" || row.abi == 0 {
			t.Fatalf("symbol %d has no row", s)
		}
		if seen[row.name] {
			t.Errorf("%s stands twice", row.name)
		}
		seen[row.name] = true
		if newer := row.abi > MinVersion; newer != row.optional {
			t.Errorf("%s came with CUDA %v, the oldest driver has %v: optional is %v", row.name, row.abi, MinVersion, row.optional)
		}
	}
}

func TestOpen(t *testing.T) {
	tests := []struct {
		name   string
		macros []string
		want   []string // of the error; none: it opens
	}{
		{"current driver", nil, nil},
		{"driver without cuGetProcAddress", []string{"NO_LOOKUP"}, nil},
		{"oldest driver, without what is optional", []string{"TWELVE_ZERO"}, nil},
		{"older driver says which is needed", []string{"OLD"}, []string{"CUDA 11.8", "12.0 is needed", "install NVIDIA driver 525"}},
		{"every missing function is named", []string{"BROKEN"}, []string{"lacks cuLaunchKernel, cuMemAlloc:", "install it anew"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Open(fakeLibrary(t, tt.macros...))
			if tt.want != nil {
				failsWith(t, err, tt.want...)
				return
			}
			must(t, err)
			if d.Version() < MinVersion {
				t.Errorf("version %v", d.Version())
			}
		})
	}
}

func TestOpenWithoutADriver(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libcuda.so.1"))
	failsWith(t, err, "no CUDA driver", "libcuda.so.1", "No such file", "install NVIDIA's driver", "--gpus all")
	if !errors.Is(err, ErrNoDriver) {
		t.Error("the error is not ErrNoDriver")
	}
}

func TestOpenAnotherLibrary(t *testing.T) {
	_, err := Open("libc.so.6")
	failsWith(t, err, "not libcuda")
}

func TestOpenWithoutAGPU(t *testing.T) {
	f := openFake(t)
	f.fail("cuInit", NoDevice)
	_, err := Open(fakeLibrary(t))
	failsWith(t, err, "initialise the CUDA driver: cuInit(flags=0)", "CUDA_ERROR_NO_DEVICE, 100", "CUDA_VISIBLE_DEVICES")
	if !errors.Is(err, NoDevice) || errors.Is(err, ErrNoDriver) {
		t.Error("the error is not NoDevice")
	}
}

// The driver is a C program: it must find the variable in C's environment.
func TestOpenHasKernelsLoadedWithTheirModule(t *testing.T) {
	t.Setenv("CUDA_MODULE_LOADING", "LAZY")
	f := openFake(t)
	got(Open(fakeLibrary(t)))(t)
	f.expect(t, "cuInit(0, EAGER)")
}

// What cuGetProcAddress knows is taken from there, the rest from the library.
func TestLookupComesFirst(t *testing.T) {
	tests := []struct {
		macros []string
		want   string
	}{
		{nil, "alloc_by_lookup(64)"},
		{[]string{"NO_LOOKUP"}, "cuMemAlloc_v2(64)"},
	}
	for _, tt := range tests {
		f := openFake(t, tt.macros...)
		c := f.context(t)
		m := got(c.Alloc(64))(t)
		f.expect(t, tt.want)
		must(t, m.Close())
	}
}

func TestVersion(t *testing.T) {
	if got := Version(12080).String(); got != "12.8" {
		t.Errorf("12080 is %s", got)
	}
}

func TestTheFirstDevice(t *testing.T) {
	d := openFake(t)
	if first, all := got(d.First())(t), got(d.Devices())(t); *first != *all[0] || *first == *all[1] {
		t.Errorf("the first of %+v is %+v", all, first)
	}
	if two, all := got(d.FirstN(2))(t), got(d.Devices())(t); len(two) != 2 || *two[1] != *all[1] || len(got(d.FirstN(1))(t)) != 1 {
		t.Errorf("the first two are %v of %v", two, all)
	}
	_, err := d.FirstN(3)
	failsWith(t, err, "3 are asked for, and the CUDA driver has 2: see `nvidia-smi`")
	if _, err := openFake(t, "GPUS=0").First(); err == nil || !strings.Contains(err.Error(), "no GPU: see `nvidia-smi`") {
		t.Errorf("of no GPU: %v", err)
	}
}

func TestDevices(t *testing.T) {
	devices := got(openFake(t).Devices())(t)
	if len(devices) != 2 {
		t.Fatalf("%d devices", len(devices))
	}
	info := got(devices[1].Info())(t)
	want := DeviceInfo{
		Name: "Fake 1", PCIBusID: "0000:1b:00.0", Compute: "9.0", Multiprocessors: 132, ClockKHz: 1980000,
		MemoryBytes: 16 << 30, L2Bytes: 50 << 20, AsyncEngines: 3, HostRegister: true, NUMANode: 1,
	}
	if info != want {
		t.Errorf("got  %+v\nwant %+v", info, want)
	}

	older := got(openFake(t, "TWELVE_ZERO").Devices())(t)
	if node := got(older[0].Info())(t).NUMANode; node != -1 {
		t.Errorf("a driver that does not know nodes says node %d", node)
	}
}

func TestOptionalFunctions(t *testing.T) {
	f := openFake(t, "TWELVE_ZERO")
	devices := got(f.Devices())(t)
	_, _, err := devices[0].Split(1, 8)
	failsWith(t, err, "cuDeviceGetDevResource", "came with CUDA 12.4", "this driver is for CUDA 12.0")
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("the error is not errors.ErrUnsupported")
	}
	c := f.context(t)
	m := got(c.Load([]byte("ptx")))(t)
	fn := got(m.Function("add"))(t) // what can do without them does
	got(NewLaunch(fn, &struct{ N uint32 }{}))(t)
}
