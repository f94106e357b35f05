package nvml

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// fakeNVML builds a fake library with two GPUs.
func fakeNVML(t *testing.T, fault string) string {
	t.Helper()
	return testutil.FakeGPU(t, "testdata/fakenvml.c", fault)
}

func open(t *testing.T, library string) *Library {
	t.Helper()
	l, err := Open(library)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestDevicesAreFoundByPCIAddress(t *testing.T) {
	l := open(t, fakeNVML(t, ""))
	for busID, number := range map[string]uint32{"0000:1a:00.0": 1, "0000:1b:00.0": 2} {
		d, err := l.Device(busID)
		require.NoError(t, err)
		power, err := d.Power()
		require.NoError(t, err)
		percent, err := d.Utilization()
		require.NoError(t, err)
		first, err := d.Energy()
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		second, err := d.Energy()
		require.NoError(t, err)
		if power != 100_000*number || percent != 10*number || first < 1<<32 || second < first+100*uint64(number) {
			t.Errorf("GPU %s: %d mW, %d %%, %d and %d mJ", busID, power, percent, first, second)
		}
	}
	if d, err := l.Device("0000:1c:00.0"); err == nil || err.Error() != "find GPU 0000:1c:00.0 in NVML: Not Found (6)" {
		t.Errorf("a GPU that does not exist: %v, %v", d, err)
	}
}

func TestUnsupportedValuesAreAbsent(t *testing.T) {
	for name, library := range map[string]string{
		"not supported by the GPU": fakeNVML(t, "energy not supported"), "an old library": testutil.FakeGPU(t, "testdata/oldnvml.c", ""),
	} {
		l := open(t, library)
		d, err := l.Device("0000:1b:00.0")
		require.NoError(t, err)
		if v, err := d.Energy(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "read the energy of GPU 0000:1b:00.0 from NVML: ") {
			t.Errorf("%s: %d mJ, %v", name, v, err)
		}
		if v, err := d.Power(); err != nil || v != 200_000 {
			t.Errorf("%s: %d mW, %v", name, v, err)
		}
	}
}

func TestOpenWithoutLibrary(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "libnvidia-ml.so.1")); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("without a library: %v", err)
	}
	if _, err := Open("libc.so.6"); err == nil || errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "so it is not libnvidia-ml.so.1") {
		t.Errorf("another library: %v", err)
	}
	if _, err := Open(fakeNVML(t, "driver not loaded")); err == nil || err.Error() != "initialize NVML: Driver Not Loaded (9)" {
		t.Errorf("without a driver: %v", err)
	}
}
