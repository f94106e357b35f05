package ladder

import (
	"errors"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
)

// The upper rungs are the router's own engine.

func openTiles(b *bench, mem []byte, slots, size int) (*engine, error) {
	return openRouter(b, mem, testbed.Config{Chunks: slots, MaxPackets: size})
}

func openLanes(b *bench, mem []byte, slots, size int) (*engine, error) {
	return withLanes(openTiles(b, mem, slots, size))
}

func openAuto(b *bench, mem []byte, slots, size int) (*engine, error) {
	c := testbed.Config{Chunks: slots, MaxPackets: size, Driver: b.Driver}
	c.Auto()
	return withLanes(openRouter(b, mem, c))
}

func withLanes(e *engine, err error) (*engine, error) {
	if err == nil {
		e.lanes = true
	}
	return e, err
}

// openRouter returns the engine of a router with one worker on the first GPU.
func openRouter(b *bench, mem []byte, c testbed.Config) (*engine, error) {
	c.Workers, c.GPUs, c.Driver = 1, 1, b.Driver
	partialChecksums := make([]bool, testbed.Ports)
	s, err := c.OpenGPUs(b.base, gpu.Options{PartialChecksums: partialChecksums})
	if err != nil {
		return nil, err
	}
	closeAll := func() error { return errors.Join(testbed.CheckGPUs(s), s.Close()) }
	e, err := s.NewEngine(mem, c.Chunks, c.MaxPackets, cpu.New(b.base, mem, partialChecksums))
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &engine{
		Engine: e, failed: func() error { return nil }, close: closeAll,
		byGPU: func() (n uint64) {
			for _, state := range s.States() {
				n += state.ByGPU
			}
			return n
		},
	}, nil
}
