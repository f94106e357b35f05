package dataplane

import "github.com/warproute/warproute/batch"

// fifo holds the chunks that are with the engine, oldest first. It has room for
// all the worker's chunks, so it is never full.
type fifo struct {
	ring  []*batch.Chunk
	first int
	n     int
}

func (f *fifo) at(i int) *batch.Chunk { return f.ring[(f.first+i)%len(f.ring)] }

func (f *fifo) push(c *batch.Chunk) {
	f.ring[(f.first+f.n)%len(f.ring)] = c
	f.n++
}

func (f *fifo) pop() *batch.Chunk {
	c := f.ring[f.first]
	f.first = (f.first + 1) % len(f.ring)
	f.n--
	return c
}
