package device

import "unsafe"

// bytesOf returns the memory of words as bytes.
func bytesOf(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4)
}
