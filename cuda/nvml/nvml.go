// Package nvml reads power, energy and utilization of GPUs from NVIDIA's management library
// (libnvidia-ml.so.1) without cgo. The library is loaded at run time and comes with the driver, but not into
// every container.
//
// A Device is found by the PCI address of cuda.DeviceInfo: NVML numbers GPUs differently from CUDA. With
// MIG, it is the whole board.
package nvml

import (
	"errors"
	"fmt"
)

// libraries are the paths of the library, in search order: the dynamic linker's directories, and the
// places in containers and in WSL.
var libraries = []string{
	"libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
}

// ErrNoLibrary is wrapped by the error of Open on a host without libnvidia-ml.
var ErrNoLibrary = errors.New("no NVML")

// result is nvmlReturn_t.
type result int32

const (
	success      result = 0
	notSupported result = 3
)

// functions are the functions of the library; nil if it lacks one.
type functions struct {
	nvmlInit_v2                         func() result
	nvmlShutdown                        func() result
	nvmlErrorString                     func(r result) string
	nvmlDeviceGetHandleByPciBusId_v2    func(busID string, device *handle) result
	nvmlDeviceGetPowerUsage             func(device handle, milliwatts *uint32) result
	nvmlDeviceGetTotalEnergyConsumption func(device handle, millijoules *uint64) result
	nvmlDeviceGetUtilizationRates       func(device handle, rates *utilization) result
}

// handle is nvmlDevice_t.
type handle uintptr

// utilization is nvmlUtilization_t, in percent of the last sample period.
type utilization struct{ GPU, Memory uint32 }

// Library is NVML, initialized. Any goroutine may call its methods.
type Library struct{ f functions }

// Open loads and initializes the library. library is the file to load; "" is the installed one. Without
// a library the error is ErrNoLibrary.
func Open(library string) (*Library, error) {
	names := libraries
	if library != "" {
		names = []string{library}
	}
	l := &Library{}
	if err := load(names, &l.f); err != nil {
		return nil, fmt.Errorf("load NVML: %w: %w", ErrNoLibrary, err)
	}
	if l.f.nvmlInit_v2 == nil || l.f.nvmlShutdown == nil || l.f.nvmlDeviceGetHandleByPciBusId_v2 == nil {
		return nil, errors.New("load NVML: the library lacks nvmlInit_v2, nvmlShutdown or nvmlDeviceGetHandleByPciBusId_v2, so it is not libnvidia-ml.so.1")
	}
	if err := l.check(l.f.nvmlInit_v2()); err != nil {
		return nil, fmt.Errorf("initialize NVML: %w", err)
	}
	return l, nil
}

// Close ends the use of the library. Its devices must no longer be in use.
func (l *Library) Close() error {
	if err := l.check(l.f.nvmlShutdown()); err != nil {
		return fmt.Errorf("shut down NVML: %w", err)
	}
	return nil
}

// Device is a GPU. Any goroutine may call its methods. An error wraps errors.ErrUnsupported if the GPU or
// the driver does not have the value.
type Device struct {
	l      *Library
	busID  string
	handle handle
}

// Device finds a GPU by its PCI address, such as 0000:1a:00.0.
func (l *Library) Device(busID string) (*Device, error) {
	d := &Device{l: l, busID: busID}
	if err := l.check(l.f.nvmlDeviceGetHandleByPciBusId_v2(busID, &d.handle)); err != nil {
		return nil, fmt.Errorf("find GPU %s in NVML: %w", busID, err)
	}
	return d, nil
}

// Power returns the power draw of the board in milliwatts: the mean of the last second from compute
// capability 8.0 on.
func (d *Device) Power() (milliwatts uint32, err error) {
	return read(d, "power draw", d.l.f.nvmlDeviceGetPowerUsage)
}

// Energy returns the energy in millijoules that the board has consumed since the driver was loaded. The
// driver updates it every 20 to 100 ms.
func (d *Device) Energy() (millijoules uint64, err error) {
	return read(d, "energy", d.l.f.nvmlDeviceGetTotalEnergyConsumption)
}

// Utilization returns the share of time in percent in which a kernel was running on the GPU, of any
// process, in the last sample period of 1/6 to 1 s.
func (d *Device) Utilization() (percent uint32, err error) {
	rates, err := read(d, "utilization", d.l.f.nvmlDeviceGetUtilizationRates)
	return rates.GPU, err
}

// read returns a value of a device.
func read[T any](d *Device, what string, get func(handle, *T) result) (T, error) {
	v := new(T) // on the heap, where C may write
	err := fmt.Errorf("the library lacks it: update the driver: %w", errors.ErrUnsupported)
	if get != nil {
		err = d.l.check(get(d.handle, v))
	}
	if err != nil {
		return *v, fmt.Errorf("read the %s of GPU %s from NVML: %w", what, d.busID, err)
	}
	return *v, nil
}

// check returns the error of a result.
func (l *Library) check(r result) error {
	if r == success {
		return nil
	}
	text := "unknown error"
	if l.f.nvmlErrorString != nil {
		text = l.f.nvmlErrorString(r)
	}
	err := fmt.Errorf("%s (%d)", text, int32(r))
	if r == notSupported {
		return fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return err
}
