// Package hostmem maps host memory outside Go's heap: it never moves, so that devices and Linux can
// be given its address.
package hostmem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HugePage is the size of a huge page in bytes.
const HugePage = 2 << 20

// Memory is one anonymous mapping.
type Memory struct {
	Bytes   []byte
	Huge    bool   // all of it is on huge pages
	mapping []byte // with the bytes in front of the first huge page
}

const readWrite, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS

// Map maps size bytes on base pages, all of them resident.
func Map(size int) (*Memory, error) {
	b, err := unix.Mmap(-1, 0, size, readWrite, private|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	return &Memory{Bytes: b, mapping: b}, nil
}

// Reserve maps size bytes of address space. The kernel allocates pages on the first store, huge ones
// where available.
func Reserve(size int) (*Memory, error) {
	b, err := unix.Mmap(-1, 0, size, readWrite, private|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d MiB of address space: %w", size>>20, err)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // base pages serve, too
	return &Memory{Bytes: b, mapping: b}, nil
}

// MapHuge maps at least size bytes, all of them resident: on reserved huge pages, on transparent
// huge pages, or on base pages, the first that the kernel has. The length is rounded up to huge pages.
//
// Frames are 2 KiB apart. On base pages a worker's frames need more translations than the TLB of the
// processor or of a device has entries.
func MapHuge(size int) (*Memory, error) {
	size = (size + HugePage - 1) &^ (HugePage - 1)
	if b, err := mapReserved(size, unix.MAP_HUGE_2MB); err == nil {
		return &Memory{Bytes: b, Huge: true, mapping: b}, nil
	}
	return mapTransparent(size)
}

// mapTransparent maps memory at a huge page boundary and requests transparent huge pages.
func mapTransparent(size int) (*Memory, error) {
	mapping, err := unix.Mmap(-1, 0, size+HugePage, readWrite, private)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB of memory: %w", size>>20, err)
	}
	ahead := distance(mapping)
	m := &Memory{Bytes: mapping[ahead : ahead+size : ahead+size], mapping: mapping}
	_ = unix.Madvise(m.Bytes, unix.MADV_HUGEPAGE)
	if err := populate(m.Bytes); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("populate %d MiB of memory: %w", size>>20, err)
	}
	m.Huge = collapse(m.Bytes)
	return m, nil
}

// collapse moves memory to huge pages and reports whether all of it is on huge pages. Linux before
// 6.1 cannot.
func collapse(b []byte) bool {
	const tries = 10 // the kernel may hold a page for a moment
	for range tries {
		if err := unix.Madvise(b, unix.MADV_COLLAPSE); err != unix.EAGAIN {
			return err == nil
		}
	}
	return false
}

// mapReserved maps reserved huge pages of the size in flags. The size is explicit, as the default
// may be 1 GiB. A cgroup may have fewer huge pages than the kernel promises: MAP_POPULATE does not
// report that, and a store then kills the process with SIGBUS. populate reports it.
func mapReserved(size, flags int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, readWrite, private|unix.MAP_POPULATE|unix.MAP_HUGETLB|flags)
	if err != nil {
		return nil, err
	}
	if err := populate(b); err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return b, nil
}

// populate allocates the pages of memory.
func populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if err != unix.EINVAL {
		return err
	}
	for i := 0; i < len(b); i += unix.Getpagesize() { // Linux before 5.14
		b[i] = 0
	}
	return nil
}

// Close unmaps the memory. Devices that registered it must have unregistered it before.
func (m *Memory) Close() error {
	if m.mapping == nil {
		return nil
	}
	mapping := m.mapping
	m.mapping, m.Bytes = nil, nil
	return unix.Munmap(mapping)
}
