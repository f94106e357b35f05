package live

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// testRunAttr is the part of union bpf_attr that BPF_PROG_TEST_RUN reads
// (linux/bpf.h). The BPF library has no field for the size of a batch.
type testRunAttr struct {
	progFD, retval          uint32
	dataSizeIn, dataSizeOut uint32
	dataIn, dataOut         uint64
	repeat, duration        uint32
	ctxSizeIn, ctxSizeOut   uint32
	ctxIn, ctxOut           uint64
	flags, cpu, batchSize   uint32
	_                       uint32
}

// runLive runs a program on live frames made of data, repeat times.
func runLive(progFD int, data []byte, repeat, batch uint32) error {
	attr := testRunAttr{
		progFD: uint32(progFD), dataSizeIn: uint32(len(data)), dataIn: uint64(uintptr(unsafe.Pointer(&data[0]))),
		repeat: repeat, flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, batchSize: batch,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(data)
	if errno != 0 {
		return errno
	}
	return nil
}
