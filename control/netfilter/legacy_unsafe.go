package netfilter

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket options of ip_tables and ip6_tables (linux/netfilter_ipv4/ip_tables.h).
const (
	getInfo    = 64
	getEntries = 65
	entriesAt  = 40 // where the entries begin in the answer
)

// tableInfo is struct ipt_getinfo, which is struct ip6t_getinfo. Entry and Underflow are
// where the rules of a hook and its policy are, in bytes.
type tableInfo struct {
	Name             [32]byte
	ValidHooks       uint32
	Entry, Underflow [5]uint32
	Entries, Size    uint32
}

func bytesOf(i *tableInfo) []byte { return (*[unsafe.Sizeof(*i)]byte)(unsafe.Pointer(i))[:] }

// getsockopt fills b, which also asks. The kernel wants its exact length.
func getsockopt(fd, level, option int, b []byte) error {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
