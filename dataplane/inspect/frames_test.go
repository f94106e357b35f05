package inspect

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// A packet may grow within its own frame, in a large frame within all of it.
func TestRoomIsTheWholeFrame(t *testing.T) {
	m := &Frames{Mem: make([]byte, 4*umem.LargeSize), Large: umem.LargeSize, LargeSize: umem.LargeSize}
	for _, c := range []struct {
		name       string
		start      uint32
		at, length uint32 // of the Ethernet header, from the frame's start
		want       int
	}{
		{"the longest received", 3 * umem.FrameSize, umem.DataOffset, umem.MaxFrameLen, umem.FrameSize},
		{"one that grew in front", 3 * umem.FrameSize, 100, umem.FrameSize - 100, umem.FrameSize},
		{"the shortest that is put together", 2 * umem.LargeSize, umem.DataOffset, umem.MaxFrameLen + 1, umem.LargeSize},
		{"jumbo that grew in front", 2 * umem.LargeSize, 100, 9014 + 158, umem.LargeSize},
		{"a short one in a large frame", umem.LargeSize, umem.DataOffset, 60, umem.LargeSize},
	} {
		buf, at, n := m.Room(batch.Frame{Addr: c.start + c.at, Len: uint16(c.length)})
		if len(buf) != c.want || &buf[0] != &m.Mem[c.start] || at != int(c.at)+14 || n != int(c.length)-14 {
			t.Errorf("%s: %d bytes, of them %d at %d", c.name, len(buf), n, at)
		}
	}
}
