package umem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/require"
)

func newMemory(t *testing.T, frames int) *Memory {
	t.Helper()
	m, err := New(frames)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func TestLayout(t *testing.T) {
	if FrameSize&(FrameSize-1) != 0 {
		t.Errorf("frames of %d bytes: AF_XDP takes powers of two", FrameSize)
	}
	if ip := DataOffset + 14; ip%16 != 0 {
		t.Errorf("the IP header of a received frame starts at byte %d, which is no 16-byte boundary", ip)
	}
	if MaxMTU < 1500 {
		t.Errorf("a frame holds an MTU of %d, less than Ethernet's", MaxMTU)
	}
	if DataOffset+MaxFrameLen != FrameSize {
		t.Errorf("%d bytes of headroom and %d of frame are not %d", DataOffset, MaxFrameLen, FrameSize)
	}
}

func TestNew(t *testing.T) {
	for _, frames := range []int{1, 1023, 1024, 1025} {
		t.Run(fmt.Sprint(frames), func(t *testing.T) {
			m := newMemory(t, frames)
			if m.Frames() < frames {
				t.Errorf("%d frames, want %d or more", m.Frames(), frames)
			}
			b := m.Bytes()
			if len(b) != m.Frames()*FrameSize || len(b)%hostmem.HugePage != 0 {
				t.Errorf("%d bytes for %d frames: not whole frames and huge pages", len(b), m.Frames())
			}
			for _, i := range []int{0, len(b) - 1} {
				if b[i] != 0 {
					t.Errorf("byte %d of new memory is %d", i, b[i])
				}
				b[i] = 0xaa // faults unless it is writable
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, frames := range []int{-1, 0, 1<<32/FrameSize + 1} {
		m, err := New(frames)
		if err == nil {
			m.Close()
			t.Errorf("New(%d) gave memory that 32-bit addresses do not reach, or none", frames)
			continue
		}
		if want := fmt.Sprintf("%d frames, 1 to 2097152 are possible", frames); !strings.Contains(err.Error(), want) {
			t.Errorf("New(%d): %v: does not say %q", frames, err, want)
		}
	}
}

func TestClose(t *testing.T) {
	m := newMemory(t, 1)
	for range 2 {
		require.NoError(t, m.Close())
	}
	if m.Bytes() != nil || m.Frames() != 0 {
		t.Errorf("closed memory has %d bytes", len(m.Bytes()))
	}
}
