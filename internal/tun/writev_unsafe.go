package tun

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVector is the largest number of elements of a vector (UIO_MAXIOV).
const maxVector = 1024

// vector is the list of the parts of a packet, for writev(2).
type vector struct {
	n     int
	parts [maxVector]unix.Iovec
}

func (v *vector) add(b []byte) {
	v.parts[v.n] = unix.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
	v.n++
}

// write writes the parts as one packet and empties the vector. The packet memory is kept alive by the caller,
// for which the vector is Go memory with pointers.
func (v *vector) write(fd int) unix.Errno {
	_, _, err := unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&v.parts)), uintptr(v.n))
	v.n = 0
	return err
}

// read reads a packet. The system call is raw: it does not block, and a worker has a thread of its own.
func read(fd int, b []byte) (n int, err unix.Errno) {
	r, _, err := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(r), err
}
