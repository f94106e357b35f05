// Package umem owns the memory that packets live in.
//
// A worker has one Memory: a single mapping cut into frames of FrameSize bytes, and
// behind them, where ports have larger MTUs than those hold, large frames of LargeSize.
// It is registered with the kernel for every AF_XDP socket of that worker (and
// with the GPU where there is one), so forwarding a packet from one port to
// another hands over a frame's address and copies nothing. Frames that nobody
// uses lie in the worker's Pool.
package umem

import (
	"fmt"

	"github.com/warproute/warproute/internal/pages"
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

// A large frame is eight frames in a row, laid out as one. The kernel knows frames of
// FrameSize alone: it delivers a longer packet in several, and takes one in several
// pieces, which may be neighbours. Package afxdp puts the first together in a large
// frame, so that to all others a packet is bytes in a row.
const (
	LargeSize = 8 * FrameSize
	// MaxLargeLen is the longest Ethernet frame that fits a large frame, without FCS.
	MaxLargeLen = LargeSize - DataOffset
	// MaxLargeMTU is the largest port MTU that fits a large frame.
	MaxLargeMTU = MaxLargeLen - 14
)

// Memory is one mapping of frames. It never moves.
type Memory struct {
	mapping *pages.Mapping
	large   int // where large frames begin
}

// New maps memory for at least the given number of frames, as package pages does.
func New(frames int) (*Memory, error) { return NewLarge(frames, 0) }

// NewLarge is New with a number of large frames besides.
func NewLarge(frames, large int) (*Memory, error) {
	const most = 1 << 32 / FrameSize
	if frames <= 0 || frames > most || large < 0 || large > (most-frames)*FrameSize/LargeSize {
		return nil, fmt.Errorf("map frame memory: %d frames asked for, 1 to %d are possible, and %d large ones, of which each takes the place of %d",
			frames, most, large, LargeSize/FrameSize)
	}
	size := (frames*FrameSize + large*LargeSize + pages.Huge - 1) &^ (pages.Huge - 1)
	m := &Memory{large: size - large*LargeSize}
	var err error
	if m.mapping, err = pages.Map(size); err != nil {
		return nil, fmt.Errorf("map frame memory: %w", err)
	}
	return m, nil
}

// Bytes is the whole mapping; a frame's address is an index into it.
func (m *Memory) Bytes() []byte { return m.mapping.Bytes }

// Frames is the number of frames in the mapping, large ones not counted.
func (m *Memory) Frames() int { return m.large / FrameSize }

// Large is the number of large frames.
func (m *Memory) Large() int { return (len(m.Bytes()) - m.large) / LargeSize }

// LargeFrom is where in the mapping they begin.
func (m *Memory) LargeFrom() int { return m.large }

// Huge says whether the mapping is on huge pages.
func (m *Memory) Huge() bool { return m.mapping.Huge }

// Close unmaps the memory. Whoever registered it must have let go of it before.
func (m *Memory) Close() error {
	m.large = 0
	return m.mapping.Close()
}
