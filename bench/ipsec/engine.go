package ipsec

import (
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
)

// makers are the engines that can be measured, by name: each is given the gateway
// whose policies it applies.
var makers = map[string]func(bed.Config, *fib.FIB, *gateway.Gateway) bed.Maker{
	"cpu": cpuEngines,
	"gpu": gpuEngines,
	host:  hostEngines,
}

func cpuEngines(_ bed.Config, base *fib.FIB, g *gateway.Gateway) bed.Maker {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		return func(worker int, mem []byte) (dataplane.Engine, error) {
			return newCPU(base, g, worker, mem), nil
		}, func() error { return nil }, nil
	}
}

// newCPU returns a worker's CPU engine.
func newCPU(base *fib.FIB, g *gateway.Gateway, worker int, mem []byte) *cpu.Engine {
	e := cpu.New(base, mem, make([]bool, bed.Ports))
	e.Secure(g, worker)
	return e
}

func gpuEngines(c bed.Config, base *fib.FIB, g *gateway.Gateway) bed.Maker {
	return c.OnGPUs(base, gpu.Options{Gateway: g, Repair: make([]bool, bed.Ports)}, func(worker int, mem []byte) *cpu.Engine {
		return newCPU(base, g, worker, mem)
	})
}
