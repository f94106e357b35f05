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
