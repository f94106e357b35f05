// Package umem owns the memory that packets live in.
//
// A worker has one Memory: a single mapping cut into frames of FrameSize bytes.
// It is registered with the kernel for every AF_XDP socket of that worker (and
// with the GPU where there is one), so forwarding a packet from one port to
// another hands over a frame's address and copies nothing. Frames that nobody
// uses lie in the worker's Pool.
package umem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The layout of a frame, in bytes:
//
//	0            256        258                       2048
//	+-------------+----------+-------------------------+
//	| XDP headroom| Headroom | Ethernet frame          |
//	+-------------+----------+-------------------------+
//
// The 2 bytes put the IP header, 14 bytes further, on a 16-byte boundary. Outer
// headers of a tunnel grow downwards into the XDP headroom.
const (
	FrameSize   = 2048
	XDPHeadroom = 256
	Headroom    = 2
	DataOffset  = XDPHeadroom + Headroom
	// MaxFrameLen is the longest Ethernet frame that fits, without FCS.
	MaxFrameLen = FrameSize - DataOffset
	// MaxMTU is the largest port MTU that fits a frame.
	MaxMTU = MaxFrameLen - 14
)

const hugePage = 2 << 20

// Memory is one mapping of frames. It never moves.
type Memory struct {
	bytes []byte
	huge  bool
}

// New maps memory for at least the given number of frames, on huge pages where
// the kernel has them to give, on normal pages otherwise.
func New(frames int) (*Memory, error) {
	if frames <= 0 || frames > 1<<32/FrameSize {
		return nil, fmt.Errorf("map frame memory: %d frames asked for, 1 to %d are possible", frames, 1<<32/FrameSize)
	}
	size := (frames*FrameSize + hugePage - 1) &^ (hugePage - 1)
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	if b, err := unix.Mmap(-1, 0, size, prot, flags|unix.MAP_HUGETLB); err == nil {
		return &Memory{bytes: b, huge: true}, nil
	}
	b, err := unix.Mmap(-1, 0, size, prot, flags)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB of frame memory: %w", size>>20, err)
	}
	return &Memory{bytes: b}, nil
}

// Bytes is the whole mapping; a frame's address is an index into it.
func (m *Memory) Bytes() []byte { return m.bytes }

// Frames is the number of frames in the mapping.
func (m *Memory) Frames() int { return len(m.bytes) / FrameSize }

// Huge says whether the mapping is on huge pages.
func (m *Memory) Huge() bool { return m.huge }

// Close unmaps the memory. Whoever registered it must have let go of it before.
func (m *Memory) Close() error {
	if m.bytes == nil {
		return nil
	}
	b := m.bytes
	m.bytes = nil
	return unix.Munmap(b)
}
