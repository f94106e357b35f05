//go:build !nogpu

package cuda

import "github.com/ebitengine/purego"

// dlopen loads a shared library.
func dlopen(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// dlsym returns the address of a symbol, 0 where there is none.
func dlsym(lib uintptr, name string) uintptr {
	fn, err := purego.Dlsym(lib, name)
	if err != nil {
		return 0
	}
	return fn
}

// syscallC calls a C function that returns an int: the upper half of the register
// that it comes in is anything.
func syscallC(fn uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(fn, args...)
	return Result(r)
}
