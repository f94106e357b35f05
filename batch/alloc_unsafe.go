package batch

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The device code declares these two structs as it reads them.
var (
	_ [8]byte = [unsafe.Sizeof(Frame{})]byte{}
	_ [8]byte = [unsafe.Sizeof(Result{})]byte{}
)

// Slab is the memory of a worker's chunks: one page-aligned mapping outside the
// Go heap, which never moves, so that a device can be given its address.
type Slab struct {
	mem    []byte
	Chunks []*Chunk
}

// NewSlab returns a slab of n empty chunks of size packets each.
func NewSlab(n, size int) (*Slab, error) {
	const entry = int(unsafe.Sizeof(Frame{}) + unsafe.Sizeof(Result{}))
	mem, err := unix.Mmap(-1, 0, n*size*entry, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for %d chunks of %d packets: %w", n*size*entry, n, size, err)
	}
	s := &Slab{mem: mem}
	in := unsafe.Slice((*Frame)(unsafe.Pointer(&mem[0])), n*size)
	out := unsafe.Slice((*Result)(unsafe.Pointer(&mem[n*size*int(unsafe.Sizeof(Frame{}))])), n*size)
	for i := range n {
		s.Chunks = append(s.Chunks, &Chunk{
			In:  in[i*size : (i+1)*size : (i+1)*size],
			Out: out[i*size : (i+1)*size : (i+1)*size],
		})
	}
	return s, nil
}

// Bytes is the slab's memory, for registration with a device.
func (s *Slab) Bytes() []byte { return s.mem }

// Close unmaps the slab; its chunks must not be used afterwards.
func (s *Slab) Close() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem, s.Chunks = nil, nil
	return unix.Munmap(mem)
}
