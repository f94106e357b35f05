package bed

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
)

// checkGPUs is an error where the driver has too few.
func (c Config) checkGPUs() error {
	if c.GPUs == 0 {
		return nil
	}
	driver, err := cuda.Open(c.Driver)
	if err == nil {
		_, err = driver.FirstN(c.GPUs)
	}
	return err
}

// OnGPUs makes engines on the bed's GPUs, as a router does: a worker's is on the next one by
// turns. fallback is what a worker's engine does without its GPU with. That a GPU is out, or
// was, is an error when the engines are closed.
func (c Config) OnGPUs(base *fib.FIB, o gpu.Options, fallback func(worker int, mem []byte) *cpu.Engine) Maker {
	o.GPUs, o.Library, o.Workers, o.Chunks, o.Shadow = c.GPUs, c.Driver, c.Workers, c.Chunks, c.Shadow
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		if c.GPUs < 1 {
			return nil, nil, fmt.Errorf("spread workers over %d GPUs: 1 or more are needed", c.GPUs)
		}
		s, err := gpu.OpenAll(base, o)
		if err != nil {
			return nil, nil, err
		}
		return func(worker int, mem []byte) (dataplane.Engine, error) {
			return s.NewEngine(mem, c.Chunks, c.MaxPackets, fallback(worker, mem))
		}, func() error { return errors.Join(s.Err(), lateness(s.States()), s.Close()) }, nil
	}
}

// lateness is an error where GPUs were late, and are used again: what was measured is not
// theirs alone.
func lateness(gpus []gpu.State) (err error) {
	for _, g := range gpus {
		if g.Timeouts > 0 && g.Outage == nil {
			err = errors.Join(err, fmt.Errorf("GPU %d was late %d times, and the CPU decided for it on %d chunks: measure again", g.Number, g.Timeouts, g.ByCPU))
		}
	}
	return err
}
