package trie

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	wordBytes = 4
	hugePage  = 2 << 20
	// smallest image that is worth a try: the root, and groups for most networks.
	minWords = MaxWords >> 4
)

// mapWords reserves address space for an image, as much as can be named and the
// machine lets us have. The kernel gives memory as words are stored, in huge pages
// where it can: a lookup's cost is a cache miss, and should not be a TLB miss too.
func mapWords() ([]uint32, error) {
	var err error
	for n := MaxWords; n >= minWords; n /= 2 {
		var b []byte
		b, err = unix.Mmap(-1, 0, n*wordBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err == nil {
			_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // where there are none, small ones serve
			return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n), nil
		}
	}
	return nil, fmt.Errorf("reserve %d MiB of address space for a lookup table: %w; raise the limit of virtual memory (ulimit -v, vm.overcommit_memory)",
		minWords*wordBytes>>20, err)
}

func bytesOf(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*wordBytes)
}

// mapped is how many images this process has. Their memory is not the collector's:
// it would let many pile up before it looks for those that nobody uses.
var mapped atomic.Int32

// manyImages are worth a collection: more than two tables, each with one beside it
// that is being loaded.
const manyImages = 5

// unmapWhenUnused gives the memory back when the last reader let go of the image.
func (im *Image) unmapWhenUnused() {
	runtime.AddCleanup(im, func(words []uint32) {
		_ = unix.Munmap(bytesOf(words))
		mapped.Add(-1)
	}, im.words)
	if mapped.Add(1) >= manyImages {
		runtime.GC()
	}
}

// discard gives all memory back but that of the header's page, which is larger
// than the header on some processors.
func (im *Image) discard() {
	defer runtime.KeepAlive(im)
	behindHeader := Root + max(Groups-Root, unix.Getpagesize()/wordBytes)
	_ = unix.Madvise(bytesOf(im.words[:Root]), unix.MADV_DONTNEED)
	_ = unix.Madvise(bytesOf(im.words[behindHeader:]), unix.MADV_DONTNEED)
}

// Bytes is the memory that the image takes, in whole pages; the writer may ask.
func (im *Image) Bytes() int {
	defer runtime.KeepAlive(im)
	pageSize := unix.Getpagesize()
	all := bytesOf(im.words)
	resident := make([]byte, 1<<16)
	pages := 0
	for used := len(im.used()) * wordBytes; used > 0; {
		n := min(used, len(resident)*pageSize)
		pages += mincore(all[:n], resident)
		all, used = all[n:], used-n
	}
	return pages * pageSize
}

// mincore counts the pages of b that are in memory, one byte of scratch each.
func mincore(b, scratch []byte) (pages int) {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&scratch[0])))
	if errno != 0 {
		return 0
	}
	for _, in := range scratch[:(len(b)+unix.Getpagesize()-1)/unix.Getpagesize()] {
		pages += int(in & 1)
	}
	return pages
}
