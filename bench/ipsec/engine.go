package ipsec

import (
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
)

// engines are the engines by name, over a gateway.
var engines = map[string]func(testbed.Config, *fib.FIB, *gateway.Gateway) testbed.Engines{
	"cpu": cpuEngines,
	"gpu": gpuEngines,
	host:  hostEngines,
}

func cpuEngines(_ testbed.Config, base *fib.FIB, g *gateway.Gateway) testbed.Engines {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		return func(worker int, mem []byte) (dataplane.Engine, error) {
			return newCPU(base, g, worker, mem), nil
		}, func() error { return nil }, nil
	}
}

// newCPU returns the CPU engine of a worker.
func newCPU(base *fib.FIB, g *gateway.Gateway, worker int, mem []byte) *cpu.Engine {
	e := cpu.New(base, mem, make([]bool, testbed.MaxPorts))
	e.Secure(g, worker)
	return e
}

func gpuEngines(c testbed.Config, base *fib.FIB, g *gateway.Gateway) testbed.Engines {
	return c.OnGPUs(base, gpu.Options{PartialChecksums: make([]bool, testbed.MaxPorts)}, func(worker int, mem []byte) *cpu.Engine {
		return newCPU(base, g, worker, mem)
	})
}
