package memport

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is from how many bytes on a tape lies in huge pages: played from small ones, it
// leaves its page behind with every burst, and the processor does not fetch ahead over
// their ends.
const hugePage = 2 << 20

// newLines returns so many lines, for as long as the tape is used.
func (t *Tape) newLines(n int) []line {
	if n*lineLen < hugePage {
		return make([]line, n)
	}
	size := (n*lineLen + hugePage - 1) / hugePage * hugePage
	mem, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return make([]line, n)
	}
	runtime.AddCleanup(t, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // without, it is slower
	ahead := -uintptr(unsafe.Pointer(&mem[0])) % hugePage
	return unsafe.Slice((*line)(unsafe.Pointer(&mem[ahead])), n)
}
