// Package inplace measures a limit: at which rate a GPU reads frames in the host's memory,
// and writes them back there, if it does nothing else. No router that leaves packets where
// they are can be faster, whatever it does to them.
package inplace

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/umem"
)

//go:generate ../../scripts/ptx.sh rewrite.cu

//go:embed rewrite.ptx
var ptx []byte

// What rewrite.h has, too, and lengths in bytes and lines.
const (
	threads      = 256
	sector       = 32
	line         = 16
	requestLines = 8
	lanes        = 32
)

// frames is how many there are: more than caches hold.
const frames = 1 << 15

// Shape is what is read and written of a frame. All are bytes; what PCIe cannot but carry
// along, up to whole sectors of 32 bytes, is added.
type Shape struct {
	At   int // from the frame's beginning
	Read int
	Back int // of those, written back
}

// params is struct shape of rewrite.h.
type params struct {
	Memory, Frames cuda.DevicePtr
	N, Times       uint32
	At, Read, Back uint32
	Lanes          uint32
}

// Rates returns, for each shape, how many million frames a second the first GPUs rewrite
// together, each of them as many of its own: the best of some passes over all frames, in random
// order, that all GPUs begin at once. driver is for tests; "" is NVIDIA's.
func Rates(driver string, gpus int, shapes []Shape) (mpps []float64, err error) {
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
		if err := b.open(device); err != nil {
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

// passes is how many there are, times how often each frame is rewritten in one: a pass takes
// many milliseconds, beside which it counts little that GPUs do not begin at the same moment.
const (
	passes = 8
	times  = 64
)

// together measures one shape: what all GPUs have rewritten when the last is done, in the best
// pass. A sum of each one's own rate would be more than there is of what they share, where one
// begins late or ends early.
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

// params are what the kernel is told of a shape: sectors, and as many lanes for each frame
// as its lines keep busy.
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
