package privilege

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setgroups sets the groups of the calling thread.
func setgroups(gids []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(unsafe.SliceData(gids))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
