package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// libraries are the names under which the driver is looked for. The dynamic
// linker searches its own directories for the first; the others are where the
// driver is that containers and WSL are given.
var libraries = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// Driver is the CUDA driver, loaded and initialised. It stays so until the
// process ends: the library has threads of its own and cannot be unloaded. Its
// methods may be called from any goroutine.
type Driver struct {
	fn      [symbolCount]uintptr // addresses of the functions; 0: the driver lacks it
	version Version
}

// Open loads and initialises the driver. library is the file to load; "" is the
// driver that is installed. Without one the error is ErrNoDriver. It sets
// CUDA_MODULE_LOADING and CUDA_DEVICE_MAX_CONNECTIONS in the environment of the
// process.
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
	if d.fn[cuDriverGetVersion] == 0 {
		return nil, errors.New("load the CUDA driver: the library has no cuDriverGetVersion, so it is not libcuda.so.1")
	}
	if err := d.call(cuDriverGetVersion, &d.version); err != nil {
		return nil, fmt.Errorf("ask the CUDA driver its version: %w", err)
	}
	if d.version < MinVersion {
		return nil, fmt.Errorf("load the CUDA driver: it is for CUDA %v, %v is needed: install NVIDIA driver 525 or newer", d.version, MinVersion)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("load the CUDA driver: it says that it is for CUDA %v and lacks %s: install it anew",
			d.version, strings.Join(missing, ", "))
	}
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("set %s for the CUDA driver: %w", name, err)
		}
	}
	if err := d.call(cuInit, 0); err != nil {
		return nil, fmt.Errorf("initialise the CUDA driver: %w", err)
	}
	return d, nil
}

// environment is what the driver takes from the environment alone.
var environment = map[string]string{
	// Kernels are put on the device when their module is loaded. Left to itself the
	// driver does so at the first launch, and waits for kernels that run: for ever,
	// where one is resident.
	"CUDA_MODULE_LOADING": "EAGER",
	// Streams share this many queues to the device, 8 if nobody says, at most 32. What
	// is behind a resident kernel in its queue waits for ever, too.
	"CUDA_DEVICE_MAX_CONNECTIONS": "32",
}

// resolve looks the functions up and returns the names of those that are needed
// and not there.
func (d *Driver) resolve(lib uintptr) (missing []string) {
	getProcAddress := dlsym(lib, "cuGetProcAddress_v2")
	for s := range symbolCount {
		d.fn[s] = find(lib, getProcAddress, s)
		if d.fn[s] == 0 && !symbols[s].optional {
			missing = append(missing, symbols[s].name)
		}
	}
	return missing
}

// find returns the address of a function, 0 where there is none. The driver's
// own look-up comes first: it knows the parameters that go with a version.
func find(lib, getProcAddress uintptr, s symbol) uintptr {
	var fn uintptr
	if getProcAddress != 0 {
		const flags = 0 // streams: the process's default ones
		var status int32
		if invoke(getProcAddress, symbols[s].name, &fn, symbols[s].abi, flags, &status) == success && fn != 0 {
			return fn
		}
	}
	return dlsym(lib, symbols[s].name+symbols[s].suffix)
}

// Version is the version of CUDA that the driver is for.
func (d *Driver) Version() Version { return d.version }

// Devices are the GPUs that the process may use, in the driver's order.
func (d *Driver) Devices() ([]*Device, error) {
	var n int32
	if err := d.call(cuDeviceGetCount, &n); err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	devices := make([]*Device, n)
	for i := range devices {
		devices[i] = &Device{drv: d}
		if err := d.call(cuDeviceGet, &devices[i].handle, i); err != nil {
			return nil, fmt.Errorf("find GPU %d: %w", i, err)
		}
	}
	return devices, nil
}

// FirstN are the first n of the Devices. It is an error if there are fewer.
func (d *Driver) FirstN(n int) ([]*Device, error) {
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) < n {
		return nil, fmt.Errorf("find GPUs: %d are asked for, and the CUDA driver has %d: see `nvidia-smi` and CUDA_VISIBLE_DEVICES", n, len(devices))
	}
	return devices[:n], nil
}

// First is the first of the Devices, for those who need but one.
func (d *Driver) First() (*Device, error) {
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, errors.New("the CUDA driver has no GPU: see `nvidia-smi` and CUDA_VISIBLE_DEVICES")
	}
	return devices[0], nil
}
