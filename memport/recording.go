package memport

import (
	"bytes"

	"github.com/warproute/warproute/umem"
)

// line is a cache line. Frames begin umem.Headroom bytes into a line.
type line [64]byte

const lineLen = len(line{})

// Recording is a list of frames to receive, stored as they will be in memory: a frame is copied by
// cache lines. It is immutable; any number of queues may play it.
type Recording struct {
	lines  []line
	frames []recorded

	// If all frames have one length and differ in one range of 16 bytes, only the first is stored,
	// with a patch per frame, so that more frames fit the caches.
	patches []patch
	offset  int // of the patch in a frame
}

// patch is the part of a frame that differs, up to an IPv6 address.
type patch [16]byte

// recorded is the position of a frame: the byte offset of its first line, and its length.
type recorded struct {
	at     uint32
	length uint32
}

// Len returns the number of frames.
func (t *Recording) Len() int { return max(len(t.frames), len(t.patches)) }

// of returns the cache lines of a frame.
func (t *Recording) of(f recorded) []line {
	first := int(f.at) / lineLen
	return t.lines[first : first+linesOf(umem.Headroom+int(f.length))]
}

// linesOf returns the number of lines of a number of bytes.
func linesOf(bytes int) int { return (bytes + lineLen - 1) / lineLen }

// MaxRecording is the maximum size of a recording in bytes of lines.
const MaxRecording = 1 << 32

// Record returns a recording of frames, up to umem.MaxFrameLen bytes of each and MaxRecording in all.
func Record(frames [][]byte) *Recording {
	if first, ok := patchable(frames); ok {
		t := Record(frames[:1])
		t.offset, t.patches = first, make([]patch, len(frames))
		for i, f := range frames {
			t.patches[i] = patch(f[first:])
		}
		return t
	}
	t := &Recording{frames: make([]recorded, 0, len(frames))}
	end := 0
	for _, f := range frames {
		length := min(len(f), umem.MaxFrameLen)
		t.frames = append(t.frames, recorded{uint32(end * lineLen), uint32(length)})
		end += linesOf(umem.Headroom + length)
	}
	t.lines = t.newLines(end)
	for i, f := range frames {
		lines := t.of(t.frames[i])
		n := copy(lines[0][umem.Headroom:], f)
		for k := 1; k < len(lines); k++ {
			n += copy(lines[k][:], f[n:])
		}
	}
	return t
}

// patchable reports whether frames have one length and differ in one patch, and returns its offset.
func patchable(frames [][]byte) (first int, ok bool) {
	const size = len(patch{})
	if len(frames) < 2 || len(frames[0]) < size || len(frames[0]) > umem.MaxFrameLen {
		return 0, false
	}
	like := frames[0]
	first = len(like) - size
	for _, f := range frames {
		if len(f) != len(like) {
			return 0, false
		}
		for first > 0 && !bytes.Equal(f[:first], like[:first]) {
			first--
		}
	}
	for _, f := range frames {
		if !bytes.Equal(f[first+size:], like[first+size:]) {
			return 0, false
		}
	}
	return first, true
}
