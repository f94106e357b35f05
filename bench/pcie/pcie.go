// Package pcie measures the in-place PCIe limit: the rate at which a GPU reads frames in host
// memory and writes them back without processing them. No GPU router that keeps packets in host
// memory is faster.
package pcie

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/umem"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate ../../scripts/ptx.sh rewrite.cu

//go:embed rewrite.ptx
var ptx []byte

// Launch shape and PCIe requests. layout.h, generated from them, is for rewrite.h.
const (
	threads      = 256
	sector       = 32
	line         = 16
	requestLines = 8
	lanes        = 32
)

// frames is the number of frames: they exceed all caches.
const frames = 1 << 15

// Shape is the part of a frame that is read and written, in bytes. It is extended to whole 32-byte
// sectors, as PCIe transfers them.
type Shape struct {
	At   int // offset in the frame
	Read int
	Back int // bytes of it that are written back
}

// params is struct shape of rewrite.h.
type params struct {
	Memory, Frames cuda.DevicePtr
	N, Times       uint32
	At, Read, Back uint32
	Lanes          uint32
}

// Rates returns the rate of each shape in million frames per second, summed over the first GPUs,
// each of which rewrites its own frames: the best of several passes over all frames in random
// order, started on all GPUs at once. driver is for tests; "" is NVIDIA's.
func Rates(driver string, gpus int, shapes []Shape) (mpps []float64, err error) {
	return RatesOn(driver, gpus, 0, shapes)
}

// RatesOn is Rates with a number of multiprocessors of each GPU, rounded up to what its driver can
// divide; 0: all.
func RatesOn(driver string, gpus, multiprocessors int, shapes []Shape) (mpps []float64, err error) {
	for _, s := range shapes {
		if s.At < 0 || s.Back < 0 || s.Read < max(1, s.Back) || s.At+s.Read > umem.FrameSize {
			return nil, fmt.Errorf("measure the rewriting of frames: %+v is not in a frame of %d bytes", s, umem.FrameSize)
		}
	}
	if gpus < 1 {
		return nil, fmt.Errorf("measure the rewriting of frames: %d GPUs do none", gpus)
	}
	d, err := cuda.Open(driver)
	if err != nil {
		return nil, err
	}
	devices, err := d.FirstN(gpus)
	if err != nil {
		return nil, err
	}
	var all []*bench
	defer func() {
		for _, b := range all {
			err = errors.Join(err, b.close())
		}
	}()
	for i, device := range devices {
		b := &bench{}
		all = append(all, b)
		if err := b.open(device, multiprocessors); err != nil {
			return nil, fmt.Errorf("measure the rewriting of frames on GPU %d: %w", i, err)
		}
	}
	for _, s := range shapes {
		rate, err := together(all, s)
		if err != nil {
			return nil, fmt.Errorf("measure the rewriting of frames: %w", err)
		}
		mpps = append(mpps, rate)
	}
	return mpps, nil
}

// passes is the number of passes, times the rewrites per frame in a pass: a pass takes many
// milliseconds, so the GPUs' start skew is negligible.
const (
	passes = 8
	times  = 64
)

// together measures one shape: the frames of all GPUs until the last one is done, in the best pass.
// The sum of separate rates would exceed shared limits if one GPU starts late or ends early.
func together(all []*bench, s Shape) (best float64, err error) {
	for range passes {
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		start := time.Now()
		for i, b := range all {
			wg.Go(func() { errs[i] = b.ctx.Do(func() error { return b.pass(s) }) })
		}
		wg.Wait()
		took := time.Since(start)
		for i, err := range errs {
			if err != nil {
				return 0, fmt.Errorf("GPU %d: %w", i, err)
			}
		}
		best = max(best, float64(len(all)*frames*times)/1e6/took.Seconds())
	}
	return best, nil
}

// params returns the kernel parameters of a shape: whole sectors, and as many lanes per frame as it
// has lines.
func (s Shape) params() *params {
	p := &params{At: uint32(s.At / sector * sector), Lanes: 1}
	upTo := func(n int) uint32 { return uint32((s.At+n+sector-1)/sector*sector) - p.At }
	p.Read = upTo(s.Read)
	if s.Back > 0 {
		p.Back = upTo(s.Back)
	}
	for lines := p.At/line%requestLines + p.Read/line; p.Lanes < min(lines, lanes); {
		p.Lanes *= 2
	}
	return p
}
