package dataplane

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// vlanKey names a VLAN by its parent.
type vlanKey struct{ parent, kind, vid uint16 }

// untagWorker returns a worker with one physical port, and the numbers of the VLANs that it knows.
func untagWorker(tb testing.TB) (*worker, map[vlanKey]uint16) {
	mem, err := umem.New(256)
	require.NoError(tb, err)
	tb.Cleanup(func() { mem.Close() })
	base := fib.New(1)
	base.VLANs.SetPhysical(1)
	known := map[vlanKey]uint16{}
	for _, v := range []vlanKey{{0, 0x8100, 5}, {0, 0x88a8, 6}, {2, 0x8100, 7}, {0, 0x8100, 0xfff}, {2, 0x88a8, 0}} {
		n, err := base.VLANs.Take()
		require.NoError(tb, err)
		tag, _ := fib.MakeTag(v.kind, v.vid)
		require.NoError(tb, base.VLANs.Add(n, v.parent, tag))
		known[v] = n
	}
	w := &worker{
		mem: mem.Bytes(), pool: umem.NewPool(mem), logical: newLogicalPorts(base.VLANs, 2048),
		counters: make([]portCounters, 1), drops: newDropTally(1),
	}
	for n := uint16(1); n <= 5; n++ {
		w.logical.all[n].Store(new(logicalPort))
	}
	return w, known
}

// FuzzUntag compares the removal of tags with a walk over them that shares no code.
func FuzzUntag(f *testing.F) {
	w, known := untagWorker(f)
	f.Add(append(make([]byte, 12), 0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0))
	f.Add(append(make([]byte, 12), 0x81, 0, 0, 5, 0x08, 0x06, 0, 1))
	for _, tags := range [][]byte{{}, {0x81, 0, 0, 5}, {0x81, 0, 0xef, 0xff}, {0x88, 0xa8, 0, 6, 0x81, 0, 0, 7}, {0x81, 0, 0, 0, 0x81, 0, 0, 5}, {0x88, 0xa8, 0, 6, 0x88, 0xa8, 0, 0}} {
		f.Add(append(append(make([]byte, 12), tags...), 8, 0, 0x45, 0))
		f.Add(append(make([]byte, 12), tags...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 200 {
			return
		}
		port, rest, dropped := uint16(0), data[min(len(data), 12):], false
		for n := 0; len(rest) >= 2; n++ {
			kind := binary.BigEndian.Uint16(rest)
			if kind != 0x8100 && kind != 0x88a8 {
				break
			}
			if len(rest) < 6 || n == 2 {
				dropped = true
				break
			}
			vid := binary.BigEndian.Uint16(rest[2:]) & 0xfff
			if child, ok := known[vlanKey{port, kind, vid}]; ok {
				port = child
			} else if vid != 0 {
				dropped = true
				break
			}
			rest = rest[4:]
		}
		for range 2 { // alone, and behind a frame with the same bytes
			at := w.pool.Take()
			clear(w.mem[at : at+umem.FrameSize])
			copy(w.mem[at+umem.DataOffset:], data)
			in := batch.Frame{Addr: at + umem.DataOffset, Len: uint16(len(data)), Origin: batch.From(0)}
			at2 := w.pool.Take()
			copy(w.mem[at2:at2+umem.FrameSize], w.mem[at:at+umem.FrameSize])
			frames := []batch.Frame{in, {Addr: at2 + umem.DataOffset, Len: in.Len}}
			kept, length, _ := w.untag(frames)
			if length != 2*len(data) {
				t.Fatalf("%d bytes in 2 frames of %d", length, len(data))
			}
			if want := 2; dropped && kept != 0 || !dropped && kept != want {
				t.Fatalf("%d of 2 frames are kept, dropped %v: % x", kept, dropped, data)
			}
			for _, out := range frames[:kept] {
				b := w.bytes(out)
				if out.Origin.Port() != port || len(data) >= 12 && !bytes.Equal(b[12:], rest) {
					t.Fatalf("port %d, want %d: % x from % x, want % x behind the addresses", out.Origin.Port(), port, b, data, rest)
				}
				w.pool.Put(out.Addr)
			}
		}
	})
}
