package privilege

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccomp installs a filter.
func seccomp(flags uintptr, filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return errno
	case r != 0:
		return errors.New("a thread has a filter of its own")
	}
	return nil
}
