package prefetch

import (
	"testing"
	"unsafe"
)

// TestPrefetchHasNoEffectOnMemory includes addresses without memory.
func TestPrefetchHasNoEffectOnMemory(t *testing.T) {
	lines := new([4][64]byte)
	pointers := []*[64]byte{&lines[0], nil, &lines[1], &lines[3]}
	ask := func() {
		for _, offset := range []uintptr{0, 1, 63, 1 << 40, -uintptr(unsafe.Pointer(lines))} {
			Read(pointers, offset)
			Write(pointers, offset)
			Read(pointers[:0], offset)
			Write(pointers[:0], offset)
			Read[int](nil, offset)
			at := []struct{ at, more uint32 }{{0, 1}, {63, 2}, {uint32(offset), 3}}
			ReadAt(lines[:], at)
			WriteAt(lines[:], at)
			WriteAt(lines[:0], at[:0])
		}
	}
	if n := testing.AllocsPerRun(10, ask); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
	if *lines != [4][64]byte{} || pointers[1] != nil || pointers[3] != &lines[3] {
		t.Errorf("memory has changed: %v, %v", *lines, pointers)
	}
}
