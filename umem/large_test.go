package umem

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func newLarge(t *testing.T, frames, large int) *Memory {
	t.Helper()
	m, err := NewLarge(frames, large)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func TestLargeFramesFollowTheOthers(t *testing.T) {
	m := newLarge(t, 100, 5)
	if m.Large() != 5 || m.Frames() < 100 || m.Frames()*FrameSize+5*LargeSize != len(m.Bytes()) {
		t.Fatalf("%d frames and %d large ones in %d bytes", m.Frames(), m.Large(), len(m.Bytes()))
	}
	p := NewPool(m)
	frames, seen := p.Len(), map[int]bool{}
	for p.LargeLen() > 0 {
		addr := p.TakeLarge()
		n := p.Large(addr)
		if addr%LargeSize != 0 || n < 0 || n >= 5 || seen[n] || p.Large(addr+LargeSize-1) != n || int(addr)+LargeSize > len(m.Bytes()) {
			t.Errorf("large frame %d at %#x", n, addr)
		}
		seen[n] = true
	}
	for p.Len() > 0 {
		if addr := p.Take(); p.Large(addr) != -1 || p.Large(addr+FrameSize-1) != -1 {
			t.Fatalf("frame %#x lies in large frame %d", addr, p.Large(addr))
		}
	}
	for addr := FrameSize - 1; addr < len(m.Bytes()); addr += FrameSize {
		if large := p.Large(uint32(addr)); large < 0 || (addr+1)%LargeSize == 0 {
			p.Put(uint32(addr))
		}
	}
	if p.Len() != frames || p.LargeLen() != 5 {
		t.Errorf("%d frames and %d large ones came back, of %d and 5", p.Len(), p.LargeLen(), frames)
	}
	if addr := p.TakeLarge(); addr%LargeSize != 0 {
		t.Errorf("a large frame came back as %#x", addr)
	}
}

func TestNewLargeRefuses(t *testing.T) {
	const most = 1 << 32 / FrameSize
	for _, c := range [][2]int{{1, -1}, {most, 1}, {1, most * FrameSize / LargeSize}} {
		if m, err := NewLarge(c[0], c[1]); err == nil {
			m.Close()
			t.Errorf("NewLarge(%d, %d) gave memory that 32-bit addresses do not reach, or none", c[0], c[1])
		}
	}
}
