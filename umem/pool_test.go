package umem

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestPoolHoldsEachFrameOnce(t *testing.T) {
	m := newMemory(t, 1)
	p := NewPool(m)
	if p.Len() != m.Frames() {
		t.Fatalf("a new pool has %d frames of %d", p.Len(), m.Frames())
	}
	seen := make([]bool, m.Frames())
	for left := m.Frames() - 1; p.Len() > 0; left-- {
		addr := p.Take()
		if addr%FrameSize != 0 || int(addr) >= len(m.Bytes()) {
			t.Fatalf("the pool gave %#x, which starts no frame of the memory", addr)
		}
		if seen[addr/FrameSize] {
			t.Fatalf("the pool gave %#x twice", addr)
		}
		seen[addr/FrameSize] = true
		if p.Len() != left {
			t.Fatalf("%d frames are left, want %d", p.Len(), left)
		}
	}
}

// The kernel and the engines return addresses within frames.
func TestPutAcceptsAnyAddressOfAFrame(t *testing.T) {
	p := NewPool(newMemory(t, 1))
	p.Take()
	frame := p.Take()
	for _, offset := range []uint32{0, 1, DataOffset, FrameSize - 1} {
		p.Put(frame + offset)
		if got := p.Take(); got != frame {
			t.Errorf("put back by byte %d of frame %#x, it came out as %#x", offset, frame, got)
		}
	}
}

func TestPoolIsLIFO(t *testing.T) {
	p := NewPool(newMemory(t, 1))
	a, b := p.Take(), p.Take()
	p.Put(a)
	p.Put(b)
	if got := p.Take(); got != b {
		t.Errorf("took %#x, want %#x, which was put back last", got, b)
	}
	if got := p.Take(); got != a {
		t.Errorf("took %#x, want %#x, which was put back before", got, a)
	}
}

func TestPoolDoesNotAllocate(t *testing.T) {
	p := NewPool(newMemory(t, 1))
	n := p.Len()
	addrs := make([]uint32, n)
	if allocs := testing.AllocsPerRun(10, func() {
		for i := range addrs {
			addrs[i] = p.Take()
		}
		for _, a := range addrs {
			p.Put(a)
		}
	}); allocs != 0 {
		t.Errorf("taking and putting back all frames makes %v allocations", allocs)
	}
	if p.Len() != n {
		t.Errorf("the pool has %d frames, want %d", p.Len(), n)
	}
}

func TestPoolBlocks(t *testing.T) {
	m, err := NewLarge(10, 2)
	require.NoError(t, err)
	defer m.Close()
	p := NewPool(m)
	n := p.Len()
	some := append([]uint32{}, p.TakeBlock(5)...)
	large := p.TakeLarge()
	if p.Len() != n-5 || len(p.TakeBlock(0)) != 0 {
		t.Fatalf("%d of %d frames are left behind 5", p.Len(), n)
	}
	p.PutBlock([]uint32{some[0] + 1, large + FrameSize, some[1] + FrameSize - 1, some[2], some[3], some[4]})
	if p.Len() != n || p.LargeLen() != m.Large() || p.TakeLarge() != large {
		t.Fatalf("%d of %d frames, %d of %d large ones", p.Len(), n, p.LargeLen(), m.Large())
	}
	seen := map[uint32]bool{}
	for _, frame := range p.TakeBlock(n) {
		if frame%FrameSize != 0 || frame > p.last || seen[frame] {
			t.Fatalf("took %#x, again: %t", frame, seen[frame])
		}
		seen[frame] = true
	}
	if p.Len() != 0 || len(seen) != n {
		t.Errorf("took %d of %d, %d are left", len(seen), n, p.Len())
	}
}
