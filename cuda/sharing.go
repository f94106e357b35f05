package cuda

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sharing is how the processes of a host share a GPU.
type Sharing struct {
	Mode    SharingMode
	Percent int // share of the GPU's threads that MPS gives this process; 0: no limit
}

// SharingMode is a way to share a GPU.
type SharingMode string

// TimeSlicing is the default: the GPU runs the kernels of one process at a time.
const (
	TimeSlicing SharingMode = "time_slicing"
	MPS         SharingMode = "mps"        // Multi-Process Service: kernels of several processes run side by side
	MIG         SharingMode = "mig"        // Multi-Instance GPU: the device is a hardware partition
	Exclusive   SharingMode = "exclusive"  // compute mode exclusive process: one process has the GPU
	Prohibited  SharingMode = "prohibited" // compute mode prohibited: no process has the GPU
)

// Values of ComputeMode (CUcomputemode).
const (
	computeProhibited = 2
	computeExclusive  = 3
)

// Sharing reads how the GPU is shared. With MPS the compute mode is that of the MPS server, so MPS
// precedes exclusive mode.
func (d *Device) Sharing() (Sharing, error) {
	mode, err := d.Attribute(ComputeMode)
	if err != nil {
		return Sharing{}, err
	}
	if mode == computeProhibited {
		return Sharing{Mode: Prohibited}, nil
	}
	mps, err := d.usesMPS()
	if err != nil {
		return Sharing{}, err
	}
	name, err := d.text(&d.drv.cuDeviceGetName)
	if err != nil {
		return Sharing{}, err
	}
	s := Sharing{Mode: TimeSlicing}
	switch {
	case strings.Contains(name, " MIG "):
		s.Mode = MIG // NVIDIA A100-SXM4-40GB MIG 1g.5gb
	case mps:
		s.Mode = MPS
	case mode == computeExclusive:
		s.Mode = Exclusive
	}
	if mps {
		s.Percent = mpsPercent()
	}
	return s, nil
}

// usesMPS reports whether the contexts of this process are shared by MPS. A driver without the
// attribute uses MPS if there is a control daemon.
func (d *Device) usesMPS() (bool, error) {
	enabled, err := d.Attribute(MPSEnabled)
	if errors.Is(err, InvalidValue) {
		return mpsDaemon(), nil
	}
	return enabled != 0, err
}

// mpsDaemon reports whether clients find an MPS control daemon. The daemon removes the file with its
// process ID at its end, but not its sockets.
func mpsDaemon() bool {
	dir := cmp.Or(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps")
	_, socket := os.Stat(filepath.Join(dir, "control"))
	_, pid := os.Stat(filepath.Join(dir, "nvidia-cuda-mps-control.pid"))
	return socket == nil && pid == nil
}

// mpsPercent returns the environment's limit of this MPS client, 0 for none.
func mpsPercent() int {
	percent, err := strconv.ParseFloat(os.Getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), 64)
	if err != nil || percent <= 0 || percent >= 100 {
		return 0
	}
	return max(1, int(percent))
}
