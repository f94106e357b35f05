package doctor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAttr is the beginning of union bpf_attr of linux/bpf.h, for BPF_MAP_CREATE.
type mapAttr struct{ kind, keySize, valueSize, maxEntries, flags uint32 }

// createMap creates a BPF map such as a router needs, and closes it.
func createMap() error {
	attr := mapAttr{kind: unix.BPF_MAP_TYPE_XSKMAP, keySize: 4, valueSize: 4, maxEntries: 1}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}
