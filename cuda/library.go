//go:build !nogpu

package cuda

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// load loads the first library that exists.
func load(names []string) (uintptr, error) {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	var tried []string
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return lib, nil
		}
		tried = append(tried, err.Error())
	}
	return 0, fmt.Errorf("%s: install NVIDIA's driver (Debian: nvidia-driver and libcuda1), or start the container with --gpus all",
		strings.Join(tried, "; "))
}

// dlsym returns the address of a symbol, 0 if the library lacks it.
func dlsym(lib uintptr, name string) uintptr {
	fn, err := purego.Dlsym(lib, name)
	if err != nil {
		return 0
	}
	return fn
}

// syscallC calls a C function that returns an int. The upper half of the result register is
// undefined.
func syscallC(fn uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(fn, args...)
	return Result(r)
}
