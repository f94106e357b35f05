package ladder

import (
	"errors"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
)

func openResident(b *bench, mem []byte, slots, size int) (*engine, error) {
	return openRouter(b, mem, testbed.Config{Chunks: slots, MaxPackets: size}, gpu.Options{})
}

// openRouter returns the engine of a router with one worker on the first GPU.
func openRouter(b *bench, mem []byte, c testbed.Config, o gpu.Options) (*engine, error) {
	c.Workers, c.GPUs, c.Driver = 1, 1, b.Driver
	o.PartialChecksums = make([]bool, testbed.Ports)
	newEngine, closeAll, err := c.OnGPUs(b.base, o, func(_ int, mem []byte) *cpu.Engine {
		return cpu.New(b.base, mem, o.PartialChecksums)
	})()
	if err != nil {
		return nil, err
	}
	e, err := newEngine(0, mem)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return &engine{Engine: e, failed: func() error { return nil }, close: closeAll}, nil
}
