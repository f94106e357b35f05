//go:build nogpu

package cuda

import "errors"

// To load a library at run time a program must itself be loaded by the C
// library's dynamic linker. Built with the tag nogpu it is not, and starts on hosts
// without one (Alpine, an empty container); in exchange there is no GPU.

func load([]string) (uintptr, error) {
	return 0, errors.New("this program was built without GPU support (tag nogpu): build it without the tag")
}

func dlsym(uintptr, string) uintptr { return 0 }

func syscallC(uintptr, ...uintptr) Result { return NotInitialized }
