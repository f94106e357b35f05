package testbed

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
)

// checkGPUs returns an error if the driver has too few GPUs.
func (c Config) checkGPUs() error {
	if c.GPUs == 0 {
		return nil
	}
	_, err := c.devices()
	return err
}

// devices returns the GPUs of a testbed that has some.
func (c Config) devices() ([]*cuda.Device, error) {
	driver, err := cuda.Open(c.Driver)
	if err != nil {
		return nil, err
	}
	return driver.FirstN(c.GPUs)
}

// Auto sets the engine of a router with engine auto.
func (c *Config) Auto() (engine string) {
	one := *c
	if one.GPUs = max(1, c.GPUs); one.checkGPUs() != nil {
		c.GPUs = 0
		return "cpu"
	}
	c.GPUs, c.Choose = one.GPUs, true
	return "gpu"
}

// parkAfter is the default of gpu.park, which a router with engine auto has.
const parkAfter = 2 * time.Second

// OpenGPUs opens the GPUs of a testbed, with options of which the testbed defines most.
func (c Config) OpenGPUs(base *fib.FIB, o gpu.Options) (*gpu.Devices, error) {
	if c.GPUs < 1 {
		return nil, fmt.Errorf("%d GPUs: at least 1 is needed", c.GPUs)
	}
	if c.Choose {
		o.Park = parkAfter
	}
	o.GPUs, o.Library, o.Workers, o.Shadow, o.Choose, o.PlainTile, o.SecuredBatch = c.GPUs, c.Driver, c.Workers, c.Shadow, c.Choose, c.PlainTile, c.SecuredBatch
	o.Gateway, o.Shares = c.Gateway, c.shares()
	o.Multiprocessors, o.SharedLimit, o.Warps = c.Multiprocessors, c.SharedLimit, c.Warps
	return gpu.OpenAll(base, o)
}

// KeepContexts keeps the contexts of the GPUs until release, so that rounds open them sooner.
func (c Config) KeepContexts() (release func() error, err error) {
	var all []*cuda.Context
	release = func() (err error) {
		for _, ctx := range all {
			err = errors.Join(err, ctx.Close())
		}
		return err
	}
	if c.GPUs == 0 {
		return release, nil
	}
	devices, err := c.devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		ctx, err := d.Retain()
		if err != nil {
			return nil, errors.Join(err, release())
		}
		all = append(all, ctx)
	}
	return release, nil
}

// CheckGPUs returns an error if a GPU failed or timed out.
func CheckGPUs(s *gpu.Devices) error { return errors.Join(s.Err(), timeouts(s.States())) }

// OnGPUs returns engines on the GPUs of a testbed, assigned to workers round-robin as in a router.
// fallback returns the CPU engine of a worker. Closing the engines fails if a GPU failed or timed out.
func (c Config) OnGPUs(base *fib.FIB, o gpu.Options, fallback func(worker int, mem []byte) *cpu.Engine) Engines {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		s, err := c.OpenGPUs(base, o)
		if err != nil {
			return nil, nil, err
		}
		return func(worker int, mem []byte) (dataplane.Engine, error) {
			return s.NewEngine(mem, c.Chunks, c.MaxPackets, fallback(worker, mem))
		}, func() error { return errors.Join(CheckGPUs(s), s.Close()) }, nil
	}
}

// timeouts returns an error if a GPU timed out and recovered, so that the CPU did part of its work.
func timeouts(gpus []gpu.State) (err error) {
	for _, g := range gpus {
		if g.Timeouts > 0 && g.Outage == nil {
			err = errors.Join(err, fmt.Errorf("GPU %d timed out %d times, and the CPU processed %d chunks instead: measure again", g.Number, g.Timeouts, g.ByCPU))
		}
	}
	return err
}
