//go:build nogpu

package cuda

import "errors"

// A program that loads libraries at run time needs the C library's dynamic linker. A program built
// with the tag nogpu starts on hosts without one (Alpine, an empty container) and has no GPU.

func load([]string) (uintptr, error) {
	return 0, errors.New("this program was built without GPU support (tag nogpu): build it without the tag")
}

func dlsym(uintptr, string) uintptr { return 0 }

func syscallC(uintptr, ...uintptr) Result { return NotInitialized }
