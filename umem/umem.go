// Package umem allocates packet memory: the UMEM of AF_XDP.
//
// Each worker has one Memory, a mapping of frames of FrameSize bytes, followed by large frames of
// LargeSize bytes if a port has an MTU above MaxMTU. It is registered with all AF_XDP sockets of the
// worker, and with the GPU, so that a packet is forwarded from port to port without a copy. Free
// frames are in the worker's Pool.
package umem

import (
	"fmt"

	"github.com/warproute/warproute/internal/hostmem"
)

// The layout of a frame, in bytes:
//
//	0            256        258                       2048
//	+-------------+----------+-------------------------+
//	| XDP headroom| Headroom | Ethernet frame          |
//	+-------------+----------+-------------------------+
//
// Headroom aligns the IP header, 14 bytes behind it, to 16 bytes. Tunnels prepend outer headers in the
// XDP headroom.
const (
	FrameSize   = 2048
	XDPHeadroom = 256
	Headroom    = 2
	DataOffset  = XDPHeadroom + Headroom
	// MaxFrameLen is the maximum length of an Ethernet frame, without FCS.
	MaxFrameLen = FrameSize - DataOffset
	// MaxMTU is the maximum MTU of a port without large frames.
	MaxMTU = MaxFrameLen - 14
)

// A large frame has the size of eight frames and the layout of one. The kernel only knows frames of
// FrameSize: a longer packet has several descriptors, which may be adjacent. Package afxdp copies
// received ones to a large frame, so that a packet is contiguous.
const (
	LargeSize = 8 * FrameSize
	// MaxLargeLen is the maximum length of an Ethernet frame in a large frame, without FCS.
	MaxLargeLen = LargeSize - DataOffset
	// MaxLargeMTU is the maximum MTU of a port with large frames.
	MaxLargeMTU = MaxLargeLen - 14
)

// Memory is one mapping of frames. It never moves.
type Memory struct {
	mapping *hostmem.Memory
	large   int // offset of the large frames
}

// New maps memory for at least the given number of frames, on huge pages where available.
func New(frames int) (*Memory, error) { return NewLarge(frames, 0) }

// NewLarge is New with additional large frames.
func NewLarge(frames, large int) (*Memory, error) {
	const most = 1 << 32 / FrameSize
	if frames <= 0 || frames > most || large < 0 || large > (most-frames)*FrameSize/LargeSize {
		return nil, fmt.Errorf("map frame memory: %d frames, 1 to %d are possible, and %d large frames, each of which replaces %d",
			frames, most, large, LargeSize/FrameSize)
	}
	size := (frames*FrameSize + large*LargeSize + hostmem.HugePage - 1) &^ (hostmem.HugePage - 1)
	m := &Memory{large: size - large*LargeSize}
	var err error
	if m.mapping, err = hostmem.MapHuge(size); err != nil {
		return nil, fmt.Errorf("map frame memory: %w", err)
	}
	return m, nil
}

// Bytes returns the mapping; the address of a frame is an index.
func (m *Memory) Bytes() []byte { return m.mapping.Bytes }

// Frames returns the number of frames, without large frames.
func (m *Memory) Frames() int { return m.large / FrameSize }

// Large returns the number of large frames.
func (m *Memory) Large() int { return (len(m.Bytes()) - m.large) / LargeSize }

// LargeFrom returns the offset of the large frames.
func (m *Memory) LargeFrom() int { return m.large }

// Huge reports whether the mapping is on huge pages.
func (m *Memory) Huge() bool { return m.mapping.Huge }

// Close unmaps the memory. It must not be registered any more.
func (m *Memory) Close() error {
	m.large = 0
	return m.mapping.Close()
}
