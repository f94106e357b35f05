// Package tenant is a process that shares a GPU: it launches kernels of a constant amount of work one
// after another, waits for each, and measures how long they take. Run alone and beside a router, it shows
// what the router costs other processes.
package tenant

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/hist"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate ../../scripts/ptx.sh tenant.cu

//go:embed tenant.ptx
var ptx []byte

// Launch shape, and the constants of the linear congruential generator that the kernel iterates
// (Numerical Recipes). layout.h, generated from them, is for tenant.h.
const (
	threads    = 1024
	multiplier = 1664525
	increment  = 1013904223
)

// MaxKernel is the longest kernel: at most a few time slices of the GPU.
const MaxKernel = 100 * time.Millisecond

// Options are the parameters of a measurement.
type Options struct {
	Driver     string        // file of the CUDA driver; "" is the installed one
	GPU        int           // ordinal of the CUDA driver
	Duration   time.Duration // of the measurement
	Kernel     time.Duration // time of a kernel on an idle GPU, which Iterations are calibrated to
	Iterations uint32        // of each thread; 0: calibrate
	Blocks     int           // per kernel; 0: as many as the GPU executes at once
}

// Result is the result of a measurement.
type Result struct {
	GPU        string  `json:"gpu"`                // name of the device
	Blocks     int     `json:"blocks"`             // per kernel
	Threads    int     `json:"threads"`            // per block
	Iterations uint32  `json:"iterations"`         // of each thread
	Alone      float64 `json:"calibrated_us"`      // shortest time of a kernel on the device before the measurement, in µs
	Kernels    uint64  `json:"kernels"`            // completed
	Seconds    float64 `json:"seconds"`            // duration of the measurement
	Rate       float64 `json:"kernels_per_second"` // completed per second
	P50        float64 `json:"p50_us"`             // median time from launch to completion, on the host, in µs
	P99        float64 `json:"p99_us"`             // 99th percentile
	Max        float64 `json:"max_us"`             // the longest one
}

// Check returns an error for invalid options.
func (o *Options) Check() error {
	switch {
	case o.Duration <= 0:
		return fmt.Errorf("a duration of %v: write a positive one", o.Duration)
	case o.Iterations == 0 && (o.Kernel < time.Microsecond || o.Kernel > MaxKernel):
		return fmt.Errorf("kernels of %v: 1µs to %v are possible", o.Kernel, MaxKernel)
	case o.GPU < 0:
		return fmt.Errorf("GPU %d: GPUs are numbered from 0 on", o.GPU)
	case o.Blocks < 0 || o.Blocks > math.MaxInt32:
		return fmt.Errorf("%d blocks: 1 to %d are possible, or 0 for as many as the GPU executes at once", o.Blocks, math.MaxInt32)
	}
	return nil
}

// Run launches kernels for a time, or until ctx is done. The result of a first kernel is compared with the
// same computation in Go.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	d, err := cuda.Open(o.Driver)
	if err != nil {
		return nil, err
	}
	devices, err := d.FirstN(o.GPU + 1)
	if err != nil {
		return nil, err
	}
	g := &gpu{}
	defer func() { err = errors.Join(err, g.close()) }()
	if err = g.open(devices[o.GPU], o.Blocks); err != nil {
		return nil, fmt.Errorf("open GPU %d: %w", o.GPU, err)
	}
	err = g.ctx.Do(func() (err error) {
		r, err = g.measure(ctx, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("launch kernels on GPU %d: %w", o.GPU, err)
	}
	return r, nil
}

// measure calibrates, verifies and measures. The context is current.
func (g *gpu) measure(ctx context.Context, o Options) (*Result, error) {
	n := o.Iterations
	var alone time.Duration
	err := g.warmUp(max(n, 1000))
	if err == nil && n == 0 {
		n, err = g.calibrate(o.Kernel)
	}
	if err == nil {
		alone, err = g.shortest(n)
	}
	if err == nil {
		err = g.verify(n)
	}
	if err != nil {
		return nil, err
	}
	r := &Result{
		GPU: g.name, Blocks: int(g.launch.Grid.X), Threads: threads, Iterations: n, Alone: float64(alone) / 1e3,
	}
	var times hist.Snapshot
	longest, start := time.Duration(0), time.Now()
	end := start
	for ctx.Err() == nil && end.Sub(start) < o.Duration {
		if err := g.run(n); err != nil {
			return nil, err
		}
		now := time.Now()
		longest = max(longest, now.Sub(end))
		times.Record(uint64(now.Sub(end)), 1)
		end = now
	}
	if times.Count == 0 {
		return nil, context.Cause(ctx)
	}
	us := func(q float64) float64 { return float64(min(times.Quantile(q), uint64(longest))) / 1e3 }
	r.Kernels, r.Seconds = times.Count, end.Sub(start).Seconds()
	r.Rate, r.P50, r.P99, r.Max = float64(r.Kernels)/r.Seconds, us(0.5), us(0.99), float64(longest)/1e3
	return r, nil
}

// warmUp runs kernels for 200 ms, in which the clocks of an idle GPU rise.
func (g *gpu) warmUp(n uint32) error {
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
		if err := g.run(n); err != nil {
			return err
		}
	}
	return nil
}

// calibrate returns the iterations of a kernel that takes d if the GPU does nothing else.
func (g *gpu) calibrate(d time.Duration) (uint32, error) {
	n := uint32(1000)
	for range 4 { // a kernel has a constant part besides its iterations
		took, err := g.shortest(n)
		if err != nil {
			return 0, err
		}
		if took <= 0 {
			return 0, fmt.Errorf("calibrate: a kernel of %d iterations took no time by the GPU's clock", n)
		}
		n = uint32(min(max(float64(n)*float64(d)/float64(took), 1), math.MaxUint32/2))
	}
	return n, nil
}

// expected returns the value that a kernel of n iterations computes.
func expected(n uint32) uint32 {
	v := uint32(0)
	for range n {
		v = v*multiplier + increment
	}
	return v
}
