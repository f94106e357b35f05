package ladder

import (
	"errors"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// fusedParams is struct fused of fused.h.
type fusedParams struct {
	Tables                                tables
	Umem, Frames, Results, Done, Finished cuda.DevicePtr
	N, Seq                                uint32
}

// fused is a slot whose chunk one kernel processes in place. The host polls a word that the kernel writes
// last. Each slot has its own stream.
type fused struct {
	frames, results, word *device.Pinned
	params                struct{ F fusedParams }
	launch                *cuda.Launch
	stream                *cuda.Stream
	polled                uint32 // in vain
}

func openFused(b *bench, mem []byte, slots, size int) (*engine, error) {
	return openLaunched(b, mem, slots, func(l *launched) (slot, error) { return newFused(l, size) })
}

func newFused(l *launched, size int) (s *fused, err error) {
	s = &fused{}
	if s.frames, err = l.gpu.Pin(size * frameBytes); err != nil {
		return nil, err
	}
	if s.results, err = l.gpu.Pin(size * resultBytes); err != nil {
		return nil, err
	}
	if s.word, err = l.gpu.Pin(4); err != nil {
		return nil, err
	}
	if s.stream, err = l.gpu.Stream(); err != nil {
		return nil, err
	}
	finished, err := l.gpu.Alloc(4)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.stream.Fill32(finished.Ptr(), 0, 1), s.stream.Synchronize()); err != nil {
		return nil, err
	}
	s.params.F = fusedParams{
		Tables: l.tables, Umem: l.umem, Frames: s.frames.Ptr(), Results: s.results.Ptr(), Done: s.word.Ptr(), Finished: finished.Ptr(),
	}
	s.launch, err = launch(l, "fused", &s.params)
	return s, err
}

func (s *fused) prepare(c *batch.Chunk) {
	copy(s.frames.Bytes, bytesOf(c.In[:c.N]))
	s.params.F.N, s.params.F.Seq = uint32(c.N), s.params.F.Seq+1
	s.launch.Grid.X = blocks(c.N)
}

func (s *fused) submit(c *batch.Chunk) error {
	s.prepare(c)
	return s.launch.Enqueue(s.stream)
}

// polls is the number of polls of the word after which the driver is asked for a fault of the kernel.
const polls = 1 << 16

func (s *fused) done(c *batch.Chunk) (bool, error) {
	if loadWord(s.word.Bytes) != s.params.F.Seq {
		if s.polled++; s.polled%polls == 0 {
			_, err := s.stream.Done()
			return false, err
		}
		return false, nil
	}
	copy(bytesOf(c.Out[:c.N]), s.results.Bytes)
	return true, nil
}

func (s *fused) measure(c *batch.Chunk, start, end *cuda.Event) error {
	s.prepare(c)
	return errors.Join(start.Record(s.stream), s.launch.Enqueue(s.stream), end.Record(s.stream), s.stream.Synchronize())
}
