package ipsec

import (
	"errors"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
)

// makers are the engines that can be measured, by name: each is given the gateway
// whose policies it applies.
var makers = map[string]func(*Options, *fib.FIB, *gateway.Gateway) bed.Maker{
	"cpu": cpuEngines,
	"gpu": gpuEngines,
}

func cpuEngines(_ *Options, base *fib.FIB, g *gateway.Gateway) bed.Maker {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		return func(worker int, mem []byte) (dataplane.Engine, error) {
			return securedCPU(base, g, worker, mem), nil
		}, func() error { return nil }, nil
	}
}

// securedCPU is a worker's CPU engine.
func securedCPU(base *fib.FIB, g *gateway.Gateway, worker int, mem []byte) *cpu.Engine {
	e := cpu.New(base, mem, make([]bool, bed.Ports))
	e.Secure(g, worker)
	return e
}

// gpuEngines is for when the GPU engine applies a gateway's policies.
func gpuEngines(*Options, *fib.FIB, *gateway.Gateway) bed.Maker {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		return nil, nil, errors.New("measure IPsec on a GPU: its engine cannot be given a gateway yet; use --engine cpu")
	}
}
