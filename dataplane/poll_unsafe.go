package dataplane

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// poll waits until a descriptor is ready, or for a number of milliseconds.
//
// The system call is raw: the Go scheduler does not take the worker's P away, which would cost more
// than a short sleep. GOMAXPROCS leaves enough Ps for other goroutines (see internal/service). A
// garbage collection interrupts the call with a signal.
func poll(fds []unix.PollFd, milliseconds int) {
	t := unix.NsecToTimespec(int64(milliseconds) * 1e6)
	// Errors are signals and closed sockets; the loop of the worker detects the latter.
	unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(&t)), 0, 0, 0)
}
