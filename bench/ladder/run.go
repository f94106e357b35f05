package ladder

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/warproute/warproute/bench/pcie"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/lookup/device"
	"github.com/warproute/warproute/umem"
)

// bench holds what all rungs share.
type bench struct {
	Options
	base            *fib.FIB
	frames, express *frames // of all chunks, and of express chunks
}

// leastFrames is the least number of frames: they exceed the caches of a core.
const leastFrames = 1 << 15

// Run verifies and measures the rungs, which alternate in each round. progress gets a line before each step.
func Run(o Options, progress func(format string, args ...any)) (r *Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	g, err := device.OpenGPU(o.Driver) // keeps the context, which the rungs open and close
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	rnd := rand.New(rand.NewPCG(o.Seed, 0))
	routes, err := testbed.Routes(rnd, o.Table, false, o.Routes, o.Seed)
	if err != nil {
		return nil, err
	}
	b := &bench{Options: o}
	if b.base, err = testbed.NewFIB(routes, 1500); err != nil {
		return nil, err
	}
	b.frames = newFrames(rnd, b.base, routes, 0, max(cmp.Or(o.least, leastFrames), o.InFlight*slices.Max(o.Sizes)))
	b.express = newFrames(rnd, b.base, routes, len(b.frames.in), expressWindows*expressPackets)
	r = &Result{
		GPU: g.Info.Name, Table: o.Table, Routes: len(routes), InFlight: o.InFlight, Load: o.Load, Rounds: o.Rounds,
		Seconds: o.Duration.Seconds(), Points: []Point{},
	}
	progress("in-place PCIe limit")
	limits := o.limits
	if limits == nil {
		limits = pcie.Rates
	}
	rates, err := limits(o.Driver, 1, []pcie.Shape{{At: umem.DataOffset - umem.Headroom, Read: headerBytes, Back: rewrittenBytes}})
	if err != nil {
		return nil, err
	}
	r.PCIe = rates[0]
	samples, err := b.measure(g, r, progress)
	if err != nil {
		return nil, err
	}
	for i, name := range o.Rungs {
		for k, n := range o.Sizes {
			r.Points = append(r.Points, newPoint(name, n, samples[i][k], r.PCIe))
		}
	}
	return r, nil
}

// measure returns the samples by rung and size.
func (b *bench) measure(g *device.GPU, r *Result, progress func(string, ...any)) (samples [][][]sample, err error) {
	mem, err := umem.New(len(b.frames.in) + len(b.express.in))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	b.frames.mem, b.express.mem = mem.Bytes(), mem.Bytes()
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, err
	}
	restore, err := affinity.Pin(cpus[len(cpus)-1])
	if err != nil {
		return nil, err
	}
	defer restore()
	if err := g.Context.Bind(); err != nil {
		return nil, err
	}
	reference := make([]float64, len(b.Sizes)) // packets per second of the first rung
	samples = make([][][]sample, len(b.Rungs))
	for round := range b.Rounds {
		for i, name := range b.Rungs {
			progress("round %d of %d: %s", round+1, b.Rounds, name)
			if samples[i] == nil {
				samples[i] = make([][]sample, len(b.Sizes))
			}
			verified, err := b.measureRung(name, round == 0, samples[i], reference)
			if err != nil {
				return nil, fmt.Errorf("measure rung %q: %w", name, err)
			}
			r.Verified += verified
		}
	}
	return samples, nil
}

// measureRung adds a sample per size. The first rung of a round sets the reference.
func (b *bench) measureRung(name string, verify bool, samples [][]sample, reference []float64) (verified int, err error) {
	rung, err := rungByName(name)
	if err != nil {
		return 0, err
	}
	size := slices.Max(b.Sizes)
	e, err := rung.open(b, b.frames.mem, b.InFlight, size)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	m := newMeter(b, e, size)
	for k, n := range b.Sizes {
		if verify {
			v, err := b.frames.verify(e, m.chunks[0], n)
			if err != nil {
				return 0, fmt.Errorf("verify chunks of %d before measuring: %w", n, err)
			}
			verified += v
		}
		s, err := m.sample(n, &reference[k], name == b.Rungs[0])
		if err != nil {
			return 0, fmt.Errorf("chunks of %d: %w", n, err)
		}
		samples[k] = append(samples[k], s)
	}
	return verified, nil
}
