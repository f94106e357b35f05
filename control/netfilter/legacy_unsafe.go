package netfilter

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket options of ip_tables and ip6_tables (linux/netfilter_ipv4/ip_tables.h).
const (
	getInfo       = 64
	getEntries    = 65
	entriesOffset = 40 // offset of the entries in struct ipt_get_entries, in bytes
)

// tableInfo is struct ipt_getinfo or the identical ip6t_getinfo. Entry and Underflow are the
// offsets of the rules and the policy of each hook, in bytes.
type tableInfo struct {
	Name             [32]byte
	ValidHooks       uint32
	Entry, Underflow [5]uint32
	Entries, Size    uint32
}

// bytesOf returns the memory of i.
func bytesOf(i *tableInfo) []byte { return (*[unsafe.Sizeof(*i)]byte)(unsafe.Pointer(i))[:] }

// getsockopt passes b, which contains the request, and fills it. b has the exact length that the
// kernel expects.
func getsockopt(fd, level, option int, b []byte) error {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
