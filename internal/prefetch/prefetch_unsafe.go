// Package prefetch prefetches memory, so that the cache misses of many packets overlap.
//
// A prefetch for reading leaves copies of the line in the caches of other cores, and a later store waits
// for their invalidation. A prefetch for writing (PREFETCHW) invalidates them, for many lines at once.
package prefetch

import "unsafe"

//go:generate go run ./asm -pkg prefetch -out loops_amd64.s -stubs loops_amd64.go

// Read prefetches the cache line at an offset from each pointer, for reading. A pointer may be nil.
func Read[T any](pointers []*T, offset uintptr) {
	read((**byte)(unsafe.Pointer(unsafe.SliceData(pointers))), len(pointers), offset)
}

// Write prefetches like Read, for writing.
func Write[T any](pointers []*T, offset uintptr) {
	write((**byte)(unsafe.Pointer(unsafe.SliceData(pointers))), len(pointers), offset)
}

// ReadAt prefetches the cache line of mem at the offset of each item, in bytes, for reading. An item begins
// with its offset, a uint32.
func ReadAt[M, T any](mem []M, items []T) {
	var item T
	readAt((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), (*uint32)(unsafe.Pointer(unsafe.SliceData(items))), len(items), unsafe.Sizeof(item))
}

// WriteAt prefetches like ReadAt, for writing.
func WriteAt[M, T any](mem []M, items []T) {
	var item T
	writeAt((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), (*uint32)(unsafe.Pointer(unsafe.SliceData(items))), len(items), unsafe.Sizeof(item))
}
