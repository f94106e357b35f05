package memport

import "github.com/warproute/warproute/umem"

// line is a cache line. Frames begin umem.Headroom bytes behind the beginning of one.
type line [64]byte

const lineLen = len(line{})

// Tape is frames to play, as they will lie in memory: so the copy of one is a copy of
// lines. It does not change; any number of queues may play it.
type Tape struct {
	lines  []line
	tracks []track
}

// track is where a frame is on the tape, in bytes, from the beginning of its first line on,
// and how many bytes it has.
type track struct {
	at     uint32
	length uint32
}

// Len is how many frames there are.
func (t *Tape) Len() int { return len(t.tracks) }

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
