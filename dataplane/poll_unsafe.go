package dataplane

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// poll waits until one of the descriptors is ready, for at most a number of
// milliseconds.
//
// The call is raw: the scheduler is not told, and leaves the worker its processor,
// which to give away and to get back would cost more than a short sleep. There are
// processors enough for all else (see internal/service). A garbage collector that
// wants this thread to stop sends it a signal, which ends the call.
func poll(fds []unix.PollFd, milliseconds int) {
	t := unix.NsecToTimespec(int64(milliseconds) * 1e6)
	// An error means a signal or a socket that is gone; the loop finds out which.
	unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(&t)), 0, 0, 0)
}
