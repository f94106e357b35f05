package trie

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/hostmem"
)

const (
	wordBytes = 4
	// minWords is the smallest useful image: the root, and nodes for most networks.
	minWords = MaxWords >> 4
)

// mapWords reserves as much address space for an image as the host allows, up to MaxWords. The kernel
// allocates memory on the first store, in huge pages if available, which avoid a TLB miss per lookup.
func mapWords() ([]uint32, *hostmem.Memory, error) {
	var err error
	for n := MaxWords; n >= minWords; n /= 2 {
		var m *hostmem.Memory
		if m, err = hostmem.Reserve(n * wordBytes); err == nil {
			return unsafe.Slice((*uint32)(unsafe.Pointer(&m.Bytes[0])), n), m, nil
		}
	}
	return nil, nil, fmt.Errorf("lookup table: %w; raise the limit of virtual memory (ulimit -v, vm.overcommit_memory)", err)
}

func bytesOf(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*wordBytes)
}

// mapped is the number of images in this process. Their memory does not count towards
// the garbage collector's trigger, so unused images would accumulate.
var mapped atomic.Int32

// maxImages is the number of images that triggers a garbage collection: more than two
// tables, each with a second image during Load.
const maxImages = 5

// unmapWhenUnused unmaps the memory after the last reference to the image is gone.
func (im *Image) unmapWhenUnused(m *hostmem.Memory) {
	runtime.AddCleanup(im, func(m *hostmem.Memory) {
		_ = m.Close()
		mapped.Add(-1)
	}, m)
	if mapped.Add(1) >= maxImages {
		runtime.GC()
	}
}

// discard returns all memory except the header's page to the kernel. On some processors
// a page is larger than the header.
func (im *Image) discard() {
	defer runtime.KeepAlive(im)
	afterHeader := RootWords + max(FirstNode-RootWords, unix.Getpagesize()/wordBytes)
	_ = unix.Madvise(bytesOf(im.words[:RootWords]), unix.MADV_DONTNEED)
	_ = unix.Madvise(bytesOf(im.words[afterHeader:]), unix.MADV_DONTNEED)
}

// Bytes returns the resident memory of the image, in whole pages. For the writer only.
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

// mincore returns the number of resident pages of b. scratch holds one byte per page.
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
