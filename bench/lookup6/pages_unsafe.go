package lookup6

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// hugePages asks Linux to put s on huge pages, at once, and returns the bytes of
// s. Lookups jump about in a table, and with small pages each jump would also
// miss the TLB. A kernel that cannot (before 6.1, or out of memory) leaves the
// table as it is, only slower.
func hugePages[T any](s []T) int {
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	if size < hugePage/4 {
		return size
	}
	// The pages that s begins and ends on hold other parts of Go's heap as well,
	// which loses nothing by it.
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s))) &^ (hugePage - 1)
	end := (uintptr(unsafe.Pointer(unsafe.SliceData(s))) + uintptr(size) + hugePage - 1) &^ (hugePage - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_COLLAPSE)
	return size
}
