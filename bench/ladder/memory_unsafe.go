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

// storeDoorbell stores a word at the beginning of memory, after all earlier stores.
func storeDoorbell(memory []byte, word uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&memory[0])), word)
}

// writeDescriptors writes frames with a tag instead of their origin.
func writeDescriptors(memory []byte, in []batch.Frame, tag uint16) {
	to := unsafe.Slice((*batch.Frame)(unsafe.Pointer(&memory[0])), len(in))
	for i, f := range in {
		f.Origin = batch.Origin(tag)
		to[i] = f
	}
}

// loadWord loads the word at the beginning of memory that a device writes.
func loadWord(memory []byte) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&memory[0]))) }
