package afxdp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setOption sets a socket option of level SOL_XDP.
func setOption[T any](fd, option int, value T) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// option reads a socket option of level SOL_XDP. Fields of a struct that an older kernel does not know
// stay zero.
func option[T any](fd, option int) (value T, err error) {
	size := uint32(unsafe.Sizeof(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return value, errno
	}
	return value, nil
}

// registerMemory registers mem as the UMEM of a socket: addresses in the rings are offsets into it. mem
// must stay mapped until the socket is closed.
func registerMemory(fd int, mem []byte, frameSize, headroom uint32) error {
	return setOption(fd, unix.XDP_UMEM_REG, unix.XDPUmemReg{
		Addr:     uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		Len:      uint64(len(mem)),
		Size:     frameSize,
		Headroom: headroom,
	})
}
