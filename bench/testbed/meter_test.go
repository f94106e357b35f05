package testbed

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

const fakeNVML = "../../cuda/nvml/testdata/fakenvml.c"

// openMeter returns a meter of fake GPUs that draw 100 W and 200 W, and are 10 % and 20 % busy.
func openMeter(t *testing.T, gpus int, source, fault string) *Meter {
	t.Helper()
	c := Config{GPUs: gpus, Driver: testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")}
	library := filepath.Join(t.TempDir(), "absent.so")
	if source != "" {
		library = testutil.FakeGPU(t, source, fault)
	}
	m, err := NewMeter(c, library)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func TestTrialsMeasureTheGPUs(t *testing.T) {
	needCores(t, 2)
	for name, c := range map[string]struct {
		gpus           int
		source, fault  string
		watts, percent float64 // 0: not measured
		missing        string
	}{
		"a GPU":                {1, fakeNVML, "", 100, 10, ""},
		"two GPUs":             {2, fakeNVML, "", 300, 15, ""},
		"no energy counter":    {2, fakeNVML, "energy not supported", 300, 15, ""},
		"no NVML":              {1, "", "", 0, 0, "GPU power and utilization: load NVML: no NVML: "},
		"no driver behind it":  {1, fakeNVML, "driver not loaded", 0, 0, "GPU power and utilization: initialize NVML: Driver Not Loaded (9)"},
		"no GPUs in a testbed": {},
	} {
		s := newSubject(t, 0, same)
		s.Meter = openMeter(t, c.gpus, c.source, c.fault)
		if missing := strings.Join(s.Meter.Missing, "; "); !strings.HasPrefix(missing, c.missing) || (missing == "") != (c.missing == "") {
			t.Errorf("%s: missing %q, want %q", name, missing, c.missing)
		}
		trial, err := s.Tester(load.Arrival{}, 1)(10_000, SamplePeriod*3/2)
		require.NoError(t, err)
		watts, percent := trial.GPU.Watts(), trial.GPU.Utilization()
		if (watts != nil) != (c.watts != 0) || (percent != nil) != (c.percent != 0) {
			t.Errorf("%s: %v W, %v %%", name, watts, percent)
			continue
		}
		if watts != nil && (*watts < 0.97*c.watts || *watts > 1.03*c.watts || *percent != c.percent) {
			t.Errorf("%s: %.1f W, %.1f %%, want %.1f W, %.1f %%", name, *watts, *percent, c.watts, c.percent)
		}
		if watts != nil && (trial.GPU.Samples != 2 || trial.GPU.Seconds < 0.9*trial.Seconds || trial.GPU.Seconds > 2*trial.Seconds) {
			t.Errorf("%s: %d samples, %v s of %v s", name, trial.GPU.Samples, trial.GPU.Seconds, trial.Seconds)
		}
	}
}

func TestMeterNeedsTheGPUs(t *testing.T) {
	c := Config{GPUs: 3, Driver: testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")}
	if _, err := NewMeter(c, ""); err == nil || !strings.Contains(err.Error(), "3 requested, the CUDA driver has 2") {
		t.Errorf("3 GPUs of 2: %v", err)
	}
}

func TestSubjectWithoutMeterMeasuresNoPower(t *testing.T) {
	needCores(t, 2)
	trial, err := newSubject(t, 0, same).Tester(load.Arrival{}, 1)(10_000, 20*time.Millisecond)
	require.NoError(t, err)
	if trial.GPU != (load.GPU{}) {
		t.Errorf("%+v", trial.GPU)
	}
}
