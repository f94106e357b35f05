// Package pages maps memory on huge pages, where the kernel has any to give.
//
// Frames lie 2 KiB apart, so that on pages of 4 KiB a worker's have more pages than a
// processor's TLB has entries, and a device's translations are as many.
package pages

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Huge is the length of a huge page in bytes.
const Huge = 2 << 20

// Mapping is memory of whole huge pages' length. It never moves, and all of it is there.
type Mapping struct {
	Bytes []byte
	Huge  bool // it is on huge pages, all of it
	all   []byte
}

// Map maps at least so many bytes, more than none: on huge pages that the host's owner has
// reserved, on such that the kernel puts together, or on normal ones.
func Map(size int) (*Mapping, error) {
	size = (size + Huge - 1) &^ (Huge - 1)
	if b, err := mapReserved(size, unix.MAP_HUGE_2MB); err == nil {
		return &Mapping{Bytes: b, Huge: true, all: b}, nil
	}
	return mapAny(size)
}

// mapAny maps memory that begins where huge pages do, and asks the kernel to make it of them.
func mapAny(size int) (*Mapping, error) {
	all, err := unix.Mmap(-1, 0, size+Huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB of memory: %w", size>>20, err)
	}
	ahead := distance(all)
	m := &Mapping{Bytes: all[ahead : ahead+size : ahead+size], all: all}
	_ = unix.Madvise(m.Bytes, unix.MADV_HUGEPAGE)
	if err := populate(m.Bytes); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("map %d MiB of memory: no pages for it: %w", size>>20, err)
	}
	m.Huge = collapse(m.Bytes)
	return m, nil
}

// collapse has memory be of huge pages, as far as it is not, and tells whether all of it is
// now. Linux before 6.1 does not tell.
func collapse(b []byte) bool {
	const tries = 10 // a page may be in somebody's hands for a moment
	for range tries {
		if err := unix.Madvise(b, unix.MADV_COLLAPSE); err != unix.EAGAIN {
			return err == nil
		}
	}
	return false
}

// mapReserved maps reserved huge pages of the size that flags name: without one, the kernel
// takes its default, may give a whole GiB, and does not take back less. It may promise more
// than the process's cgroup lets it have, as containers are set up at times: MAP_POPULATE does
// not tell, and who touches the memory is killed.
func mapReserved(size, flags int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE|unix.MAP_HUGETLB|flags)
	if err != nil {
		return nil, err
	}
	if err := populate(b); err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return b, nil
}

// populate gives memory its pages.
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

// Close unmaps the memory. Whoever registered it must have let go of it before.
func (m *Mapping) Close() error {
	if m.all == nil {
		return nil
	}
	all := m.all
	m.all, m.Bytes = nil, nil
	return unix.Munmap(all)
}
