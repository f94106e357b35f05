package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestSharing(t *testing.T) {
	const mig = `PROFILE=" MIG 1g.10gb"`
	for _, tt := range []struct {
		name    string
		macros  []string
		percent string // of the environment
		want    Sharing
	}{
		{"default compute mode", nil, "", Sharing{Mode: TimeSlicing}},
		{"exclusive process", []string{"COMPUTE_MODE=3"}, "", Sharing{Mode: Exclusive}},
		{"prohibited", []string{"COMPUTE_MODE=2", "MPS=1"}, "", Sharing{Mode: Prohibited}},
		{"MPS", []string{"MPS=1"}, "", Sharing{Mode: MPS}},
		{"MPS whose server has the GPU to itself", []string{"MPS=1", "COMPUTE_MODE=3"}, "100", Sharing{Mode: MPS}},
		{"MPS with a limit", []string{"MPS=1"}, "24.5", Sharing{Mode: MPS, Percent: 24}},
		{"limit without MPS", nil, "24", Sharing{Mode: TimeSlicing}},
		{"invalid limit", []string{"MPS=1"}, "half", Sharing{Mode: MPS}},
		{"MIG", []string{mig}, "", Sharing{Mode: MIG}},
		{"MPS within MIG", []string{mig, "MPS=1"}, "50", Sharing{Mode: MIG, Percent: 50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", tt.percent)
			if s := got(got(openFake(t, tt.macros...).Devices())(t)[1].Sharing())(t); s != tt.want {
				t.Errorf("%+v, want %+v", s, tt.want)
			}
		})
	}
}

// TestSharingOfOldDrivers: a running control daemon replaces the attribute.
func TestSharingOfOldDrivers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", dir)
	d := got(openFake(t, "TWELVE_ZERO").Devices())(t)[0]
	if s := got(d.Sharing())(t); s.Mode != TimeSlicing {
		t.Errorf("without a control daemon: %+v", s)
	}
	for _, file := range []struct {
		name string
		want SharingMode
	}{{"control", TimeSlicing}, {"nvidia-cuda-mps-control.pid", MPS}} { // without the latter the daemon has ended
		require.NoError(t, os.WriteFile(filepath.Join(dir, file.name), nil, 0o600))
		if s := got(d.Sharing())(t); s.Mode != file.want {
			t.Errorf("with %s: %+v, want %s", file.name, s, file.want)
		}
	}
}
