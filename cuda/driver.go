package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// libraries are the paths of the driver, in search order: the dynamic linker's directories, and the
// places in containers and in WSL.
var libraries = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// Driver is the CUDA driver, loaded and initialised until the process ends: the library has threads
// of its own and cannot be unloaded. Any goroutine may call its methods.
type Driver struct {
	prototypes
	version Version
}

// Open loads and initialises the driver. library is the file to load; "" is the installed driver.
// Without a driver the error is ErrNoDriver. Open sets CUDA_MODULE_LOADING and
// CUDA_DEVICE_MAX_CONNECTIONS in the environment of the process.
func Open(library string) (*Driver, error) {
	names := libraries
	if library != "" {
		names = []string{library}
	}
	lib, err := load(names)
	if err != nil {
		return nil, fmt.Errorf("load the CUDA driver: %w: %w", ErrNoDriver, err)
	}
	d := &Driver{}
	missing := d.resolve(lib)
	if d.cuDriverGetVersion.address == 0 {
		return nil, errors.New("load the CUDA driver: the library has no cuDriverGetVersion, so it is not libcuda.so.1")
	}
	if err := d.cuDriverGetVersion.call(&d.version); err != nil {
		return nil, fmt.Errorf("read the version of the CUDA driver: %w", err)
	}
	if d.version < MinVersion {
		return nil, fmt.Errorf("load the CUDA driver: it supports CUDA %v, CUDA %v is required: install NVIDIA driver 525 or newer", d.version, MinVersion)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("load the CUDA driver: it claims CUDA %v and lacks %s: reinstall it",
			d.version, strings.Join(missing, ", "))
	}
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("set %s for the CUDA driver: %w", name, err)
		}
	}
	if err := d.cuInit.call(0); err != nil {
		return nil, fmt.Errorf("initialise the CUDA driver: %w", err)
	}
	return d, nil
}

// environment has settings that the driver reads from the environment alone.
var environment = map[string]string{
	// Kernels are uploaded with their module. By default the driver uploads them at the first
	// launch and waits for running kernels: forever, beside a resident kernel.
	"CUDA_MODULE_LOADING": "EAGER",
	// Streams share this many hardware queues, 8 by default, at most 32. Work behind a resident
	// kernel in the same queue waits forever.
	"CUDA_DEVICE_MAX_CONNECTIONS": "32",
}

// resolve finds the functions and returns the names of the missing ones that are required.
func (d *Driver) resolve(lib uintptr) (missing []string) {
	getProcAddress := dlsym(lib, "cuGetProcAddress_v2")
	for f := range d.all {
		f.drv, f.address = d, find(lib, getProcAddress, f)
		if f.address == 0 && f.abi <= MinVersion {
			missing = append(missing, f.name)
		}
	}
	return missing
}

// find returns the address of a function, 0 if the driver lacks it. cuGetProcAddress comes first: it
// selects the parameters by version.
func find(lib, getProcAddress uintptr, f *function) uintptr {
	var address uintptr
	if getProcAddress != 0 {
		const flags = 0 // the legacy default stream
		var status int32
		if invoke(getProcAddress, f.name, &address, f.abi, flags, &status) == success && address != 0 {
			return address
		}
	}
	return dlsym(lib, f.name+f.suffix)
}

// Version returns the CUDA version that the driver supports.
func (d *Driver) Version() Version { return d.version }

// Devices returns the visible GPUs, in the driver's order.
func (d *Driver) Devices() ([]*Device, error) {
	var n int32
	if err := d.cuDeviceGetCount.call(&n); err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	devices := make([]*Device, n)
	for i := range devices {
		devices[i] = &Device{drv: d}
		if err := d.cuDeviceGet.call(&devices[i].handle, int32(i)); err != nil {
			return nil, fmt.Errorf("find GPU %d: %w", i, err)
		}
	}
	return devices, nil
}

// FirstN returns the first n of the Devices. Fewer are an error.
func (d *Driver) FirstN(n int) ([]*Device, error) {
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) < n {
		return nil, fmt.Errorf("find GPUs: %d requested, the CUDA driver has %d: see `nvidia-smi` and CUDA_VISIBLE_DEVICES", n, len(devices))
	}
	return devices[:n], nil
}
