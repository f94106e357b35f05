package placement

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// prefer moves memory to a node of a mask, if that has free memory, and keeps it there: NUMA balancing scans only memory with the default
// policy (mbind(2), MPOL_PREFERRED without MPOL_F_NUMA_BALANCING).
func prefer(b []byte, nodes *unix.CPUSet) error {
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MPOL_PREFERRED,
		uintptr(unsafe.Pointer(nodes)), unsafe.Sizeof(*nodes)*8, unix.MPOL_MF_MOVE)
	if errno != 0 {
		return errno
	}
	return nil
}
