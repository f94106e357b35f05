package testutil

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/umem"
)

// World is an engine over a Network, with memory for 1,024 frames and a chunk of them.
type World[E interface{ Submit(*batch.Chunk) }] struct {
	Net    *Network
	Engine E
	Mem    *umem.Memory
	Chunk  *batch.Chunk
}

// NewWorld returns a world with the engine that newEngine returns, for as long as a test runs.
func NewWorld[E interface{ Submit(*batch.Chunk) }](t interface{ Cleanup(func()) }, newEngine func(f *fib.FIB, mem []byte, partialChecksums []bool) E) *World[E] {
	mem, err := umem.New(1024)
	must(err)
	t.Cleanup(func() { mem.Close() })
	net := NewNetwork()
	return &World[E]{net, newEngine(net.FIB, mem.Bytes(), net.PartialChecksums), mem, batch.NewChunks(1, 1024)[0]}
}

// Submit passes frames through the engine as one chunk, all of one origin, and returns
// their results.
func (w *World[E]) Submit(origin batch.Origin, frames ...[]byte) []batch.Result {
	w.Fill(origin, frames...)
	w.Engine.Submit(w.Chunk)
	return w.Chunk.Out[:len(frames)]
}

// Fill writes frames into the chunk. Results are invalid until an engine overwrites them.
func (w *World[E]) Fill(origin batch.Origin, frames ...[]byte) {
	for i, f := range frames {
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		copy(w.Mem.Bytes()[addr:], f)
		w.Chunk.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: origin}
		w.Chunk.Out[i] = batch.Result{Verdict: 0xffff}
	}
	w.Chunk.N = len(frames)
}

// Sent returns the frame that a forward result names.
func (w *World[E]) Sent(r batch.Result) []byte { return w.Mem.Bytes()[r.Addr():][:r.Len()] }

// Received returns frame i of the chunk as it is now.
func (w *World[E]) Received(i int) []byte {
	f := w.Chunk.In[i]
	return w.Mem.Bytes()[f.Addr:][:f.Len]
}
