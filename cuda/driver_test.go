package cuda

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// TestPrototypesNameTheirParameters checks that tags fit the types of the fields.
func TestPrototypesNameTheirParameters(t *testing.T) {
	var p prototypes
	v, i := reflect.TypeOf(p), 0
	for f := range p.all {
		if field := v.Field(i); f.name != field.Name || f.abi == 0 || field.Type.Field(0).Type != reflect.TypeFor[function]() {
			t.Errorf("%s: name %s, abi %d", field.Name, f.name, f.abi)
		}
		if call, ok := reflect.PointerTo(v.Field(i).Type).MethodByName("call"); ok && call.Type.NumIn()-1 != len(f.args) {
			t.Errorf("%s has parameters %q, its type has %d", f.name, f.args, call.Type.NumIn()-1)
		}
		i++
	}
}

func TestOpen(t *testing.T) {
	tests := []struct {
		name   string
		macros []string
		want   []string // phrases of the error; none: Open succeeds
	}{
		{"current driver", nil, nil},
		{"driver without cuGetProcAddress", []string{"NO_LOOKUP"}, nil},
		{"oldest driver, without optional functions", []string{"TWELVE_ZERO"}, nil},
		{"too old a driver", []string{"OLD"}, []string{"CUDA 11.8", "12.0 is required", "install NVIDIA driver 525"}},
		{"a driver without required functions", []string{"BROKEN"}, []string{"lacks cuLaunchKernel, cuMemAlloc:", "reinstall it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Open(fakeLibrary(t, tt.macros...))
			if tt.want != nil {
				failsWith(t, err, tt.want...)
				return
			}
			require.NoError(t, err)
			if d.Version() < MinVersion {
				t.Errorf("version %v", d.Version())
			}
		})
	}
}

func TestOpenReportsMissingDriver(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libcuda.so.1"))
	failsWith(t, err, "no CUDA driver", "libcuda.so.1", "No such file", "install NVIDIA's driver", "--gpus all")
	if !errors.Is(err, ErrNoDriver) {
		t.Error("the error is not ErrNoDriver")
	}
}

func TestOpenRejectsOtherLibrary(t *testing.T) {
	_, err := Open("libc.so.6")
	failsWith(t, err, "not libcuda")
}

func TestOpenReportsMissingGPU(t *testing.T) {
	f := openFake(t)
	f.fail("cuInit", NoDevice)
	_, err := Open(fakeLibrary(t))
	failsWith(t, err, "initialise the CUDA driver: cuInit(flags=0)", "CUDA_ERROR_NO_DEVICE, 100", "CUDA_VISIBLE_DEVICES")
	if !errors.Is(err, NoDevice) || errors.Is(err, ErrNoDriver) {
		t.Error("the error is not NoDevice")
	}
}

// TestOpenSetsEagerModuleLoading looks into C's environment, which the driver reads.
func TestOpenSetsEagerModuleLoading(t *testing.T) {
	t.Setenv("CUDA_MODULE_LOADING", "LAZY")
	f := openFake(t)
	got(Open(fakeLibrary(t)))(t)
	f.expect(t, "cuInit(0, EAGER)")
}

func TestProcAddressPrecedesLibrarySymbols(t *testing.T) {
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
		require.NoError(t, m.Close())
	}
}

func TestVersion(t *testing.T) {
	if got := Version(12080).String(); got != "12.8" {
		t.Errorf("12080 is %s", got)
	}
}

func TestFirstDevices(t *testing.T) {
	d := openFake(t)
	if two, all := got(d.FirstN(2))(t), got(d.Devices())(t); len(two) != 2 || *two[1] != *all[1] || len(got(d.FirstN(1))(t)) != 1 {
		t.Errorf("the first two are %v of %v", two, all)
	}
	_, err := d.FirstN(3)
	failsWith(t, err, "3 requested, the CUDA driver has 2: see `nvidia-smi`")
	_, err = openFake(t, "GPUS=0").FirstN(1)
	failsWith(t, err, "1 requested, the CUDA driver has 0")
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
		t.Errorf("a driver without NUMA nodes reports node %d", node)
	}
}

func TestOptionalFunctions(t *testing.T) {
	f := openFake(t, "TWELVE_ZERO")
	devices := got(f.Devices())(t)
	_, _, err := devices[0].Split(1, 8)
	failsWith(t, err, "cuDeviceGetDevResource", "requires CUDA 12.4", "the driver supports CUDA 12.0")
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("the error is not errors.ErrUnsupported")
	}
	c := f.context(t)
	m := got(c.Load([]byte("ptx")))(t)
	fn := got(m.Function("add"))(t) // works without them
	got(NewLaunch(fn, &struct{ N uint32 }{}))(t)
}
