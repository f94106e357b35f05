package memport

import (
	"bytes"

	"github.com/warproute/warproute/umem"
)

// line is a cache line. Frames begin umem.Headroom bytes behind the beginning of one.
type line [64]byte

const lineLen = len(line{})

// Tape is frames to play, as they will lie in memory: so the copy of one is a copy of
// lines. It does not change; any number of queues may play it.
type Tape struct {
	lines  []line
	tracks []track

	// Of frames of one length that differ in one place alone, as generated ones may, the lines
	// are those of the first, and of each there is that place: so that more fit the caches.
	places []place
	first  int // byte of a frame that is in it
}

// place is as much of a frame as may differ: an IPv6 address.
type place [16]byte

// track is where a frame is on the tape, in bytes, from the beginning of its first line on,
// and how many bytes it has.
type track struct {
	at     uint32
	length uint32
}

// Len is how many frames there are.
func (t *Tape) Len() int { return max(len(t.tracks), len(t.places)) }

func (t *Tape) of(f track) []line {
	first := int(f.at) / lineLen
	return t.lines[first : first+linesOf(umem.Headroom+int(f.length))]
}

// linesOf returns how many lines so many bytes take, from the beginning of one on.
func linesOf(bytes int) int { return (bytes + lineLen - 1) / lineLen }

// TapeSize is how many bytes of lines a tape holds.
const TapeSize = 1 << 32

// Record returns a tape with the given frames, up to umem.MaxFrameLen bytes of each and
// TapeSize in all.
func Record(frames [][]byte) *Tape {
	if first, ok := onePlace(frames); ok {
		t := Record(frames[:1])
		t.first, t.places = first, make([]place, len(frames))
		for i, f := range frames {
			t.places[i] = place(f[first:])
		}
		return t
	}
	t := &Tape{tracks: make([]track, 0, len(frames))}
	end := 0
	for _, f := range frames {
		length := min(len(f), umem.MaxFrameLen)
		t.tracks = append(t.tracks, track{uint32(end * lineLen), uint32(length)})
		end += linesOf(umem.Headroom + length)
	}
	t.lines = t.newLines(end)
	for i, f := range frames {
		lines := t.of(t.tracks[i])
		n := copy(lines[0][umem.Headroom:], f)
		for k := 1; k < len(lines); k++ {
			n += copy(lines[k][:], f[n:])
		}
	}
	return t
}

// onePlace returns where the place is that has all in which frames of one length differ,
// if they do in no other.
func onePlace(frames [][]byte) (first int, ok bool) {
	const size = len(place{})
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
