// Package prefetch asks for memory before it is used, so that the cache misses of many
// packets overlap.
//
// A load would do to read, if it is not waited for. To write, it would not: it brings a line
// that other processors may keep, and the store that follows waits until they have given it
// up. An atomic operation waits alone, too, with nothing beside it. Write has many lines given
// up at once.
package prefetch

import "unsafe"

//go:generate go run ./asm -pkg prefetch -out loops_amd64.s -stubs loops_amd64.go

// Read asks for the cache line so many bytes behind each pointer. Any may be nil.
func Read[T any](pointers []*T, offset uintptr) {
	read((**byte)(unsafe.Pointer(unsafe.SliceData(pointers))), len(pointers), offset)
}

// Write does so for lines that are written next.
func Write[T any](pointers []*T, offset uintptr) {
	write((**byte)(unsafe.Pointer(unsafe.SliceData(pointers))), len(pointers), offset)
}

// ReadAt asks for the cache line at each item's offset in mem, in bytes. An item begins with
// its offset, a uint32.
func ReadAt[M, T any](mem []M, items []T) {
	var item T
	readAt((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), (*uint32)(unsafe.Pointer(unsafe.SliceData(items))), len(items), unsafe.Sizeof(item))
}

// WriteAt does so for lines that are written next.
func WriteAt[M, T any](mem []M, items []T) {
	var item T
	writeAt((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), (*uint32)(unsafe.Pointer(unsafe.SliceData(items))), len(items), unsafe.Sizeof(item))
}
