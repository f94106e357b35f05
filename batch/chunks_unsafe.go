package batch

import "unsafe"

// The device code declares these two structs.
var (
	_ [8]byte = [unsafe.Sizeof(Frame{})]byte{}
	_ [8]byte = [unsafe.Sizeof(Result{})]byte{}
)

// NewChunks returns n empty chunks of size packets each. Their memory is resident, so that no
// worker takes page faults.
func NewChunks(n, size int) []*Chunk {
	in, out := make([]Frame, n*size), make([]Result, n*size)
	clear(in)
	clear(out)
	chunks := make([]*Chunk, n)
	for i := range chunks {
		from, to := i*size, (i+1)*size
		chunks[i] = &Chunk{In: in[from:to:to], Out: out[from:to:to]}
	}
	return chunks
}
