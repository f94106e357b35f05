package memport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// A recording has what is common to frames once, where that may be, and frames whole elsewhere.
func TestRecordStoresPatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	size := len(patch{})
	for _, tt := range []struct {
		length, from, to int // in bytes: frames, and where they differ
		once             bool
	}{
		{60, 24, 34, true}, {60, 24, 24 + size, true}, {60, 24, 25 + size, false},
		{60, 0, 1, true}, {60, 59, 60, true}, {60, 0, 0, true}, {size, 0, size, true}, {size - 1, 0, 1, false},
		{umem.MaxFrameLen, umem.MaxFrameLen - 3, umem.MaxFrameLen, true}, {umem.MaxFrameLen + 1, 3, 4, false},
	} {
		t.Run(fmt.Sprintf("%d/%d-%d", tt.length, tt.from, tt.to), func(t *testing.T) {
			like, frames := make([]byte, tt.length), [][]byte{}
			for i := range like {
				like[i] = byte(rnd.Uint32())
			}
			for i := range 300 {
				f := bytes.Clone(like)
				for k := tt.from; k < tt.to; k++ {
					f[k] = byte(i * (k + 1))
				}
				frames = append(frames, f)
			}
			if recording := Record(frames); (recording.patches != nil) != tt.once || recording.Len() != len(frames) {
				t.Errorf("a recording of %d frames with %d patches", recording.Len(), len(recording.patches))
			}
			circulate(t, rnd, frames)
		})
	}
}

// Frames are received repeatedly, up to the count, transmitted as they are in memory, and no other
// bytes change.
func TestFramesOfAnyLengthCirculate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	circulate(t, rnd, anyFrames(rnd))
}

func circulate(t *testing.T, rnd *rand.Rand, frames [][]byte) {
	const most = umem.MaxFrameLen
	mem, err := umem.New(600)
	require.NoError(t, err)
	defer mem.Close()
	pool := umem.NewPool(mem)
	in, out := New(3, mem, pool), New(1, mem, pool)
	sent := 0
	out.Collect(func(got []byte) {
		if want := frames[sent%len(frames)]; !bytes.Equal(got, want[:min(len(want), most)]) {
			t.Fatalf("frame %d: % x, want % x", sent, got, want)
		}
		sent++
	})
	first := len(frames) / 3
	in.PlayRecording(Record(frames), first, 2000)
	sent = first
	chunk := make([]batch.Frame, 256)
	for received := 0; ; {
		in.Refill()
		for i := range mem.Bytes() {
			mem.Bytes()[i] = 0xa5
		}
		got := in.Receive(chunk[:1+rnd.IntN(len(chunk))])
		for _, f := range chunk[:got] {
			if f.Origin.Port() != 3 {
				t.Fatalf("received by port %d", f.Origin.Port())
			}
			slot := mem.Bytes()[f.Addr/umem.FrameSize*umem.FrameSize:][:umem.FrameSize]
			end := int(f.Addr%umem.FrameSize) + int(f.Len)
			if slot[f.Addr%umem.FrameSize-umem.Headroom-1] != 0xa5 || end+64 < len(slot) && slot[end+63] != 0xa5 {
				t.Fatalf("%d bytes at %d: written beyond the frame's lines", f.Len, f.Addr)
			}
			if rnd.IntN(4) == 0 { // an engine may have put a header before it
				back := uint32(rnd.IntN(200))
				to := f.Addr - back
				copy(mem.Bytes()[to:], mem.Bytes()[f.Addr:f.Addr+uint32(f.Len)])
				f.Addr = to
			}
			if n := out.Transmit([]batch.Frame{f}); n != 1 {
				t.Fatal("a frame was not sent")
			}
		}
		out.Reclaim()
		if received += got; got == 0 {
			if received != 2000 || sent != first+received {
				t.Fatalf("%d received, %d sent, of 2000", received, sent-first)
			}
			break
		}
	}
	(&pair{mem, pool, in, out}).checkFrames(t)
}

// BenchmarkRound measures the cost of the ports: one frame received and transmitted, without an
// emulated NIC and with one, whose cost is included.
func BenchmarkRound(b *testing.B) {
	for _, size := range []int{60, 576, 1408} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) { benchmarkRound(b, size, false) })
		b.Run(fmt.Sprintf("%dB/nic", size), func(b *testing.B) { benchmarkRound(b, size, true) })
	}
}

func benchmarkRound(b *testing.B, length int, hasNIC bool) {
	const size, chunks = 256, 8
	mem, err := umem.New(3*ringSize + (chunks+1)*size)
	require.NoError(b, err)
	defer mem.Close()
	pool := umem.NewPool(mem)
	in, out := New(0, mem, pool), New(1, mem, pool)
	in.hasNIC, out.hasNIC = hasNIC, hasNIC
	frames := make([][]byte, (1<<19)*60/length)
	for i := range frames {
		frames[i] = make([]byte, length)
		binary.LittleEndian.PutUint64(frames[i][24:], rand.Uint64())
	}
	in.Play(frames, -1)
	var under [chunks][size]batch.Frame
	nic := func() {
		for range size / burst {
			in.step()
		}
		out.step()
	}
	for i := range under {
		in.Refill()
		nic()
		in.Receive(under[i][:])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += size {
		c := under[i/size%chunks][:]
		in.Refill()
		out.Transmit(c)
		if hasNIC {
			nic()
		}
		out.Reclaim()
		in.Receive(c)
	}
}
