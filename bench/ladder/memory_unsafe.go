package ladder

import (
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
)

// bytesOf returns the memory of a slice as bytes.
func bytesOf[T uint32 | uint64 | batch.Frame | batch.Result](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// loadWord loads the word at the beginning of memory that a device writes.
func loadWord(memory []byte) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&memory[0]))) }
