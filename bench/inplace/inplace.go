// Package inplace measures a limit: at which rate a GPU reads frames in the host's memory,
// and writes them back there, if it does nothing else. No router that leaves packets where
// they are can be faster, whatever it does to them.
package inplace

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Rates returns, for each shape, how many million frames a second the first GPU rewrites:
// the best of some passes over all frames, in random order. driver is for tests; "" is
// NVIDIA's.
func Rates(driver string, shapes []Shape) (mpps []float64, err error) {
	for _, s := range shapes {
		if s.At < 0 || s.Back < 0 || s.Read < max(1, s.Back) || s.At+s.Read > umem.FrameSize {
			return nil, fmt.Errorf("measure the rewriting of frames: %+v is not in a frame of %d bytes", s, umem.FrameSize)
		}
	}
	d, err := cuda.Open(driver)
	if err != nil {
		return nil, err
	}
	device, err := d.First()
	if err != nil {
		return nil, err
	}
	info, err := device.Info()
	if err != nil {
		return nil, err
	}
	ctx, err := device.Retain()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ctx.Close()) }()
	err = ctx.Do(func() error {
		b := &bench{ctx: ctx}
		err := b.prepare(info.Multiprocessors)
		for i := 0; i < len(shapes) && err == nil; i++ {
			var rate float64
			rate, err = b.rate(shapes[i])
			mpps = append(mpps, rate)
		}
		return errors.Join(err, b.close())
	})
	if err != nil {
		return nil, fmt.Errorf("measure the rewriting of frames: %w", err)
	}
	return mpps, nil
}

// bench is what a measurement has of the device.
type bench struct {
	ctx    *cuda.Context
	kernel *cuda.Function
	blocks uint32
	stream *cuda.Stream
	memory *cuda.HostMemory
	order  *cuda.Memory
	undo   []func() error
}

func (b *bench) prepare(multiprocessors int) error {
	module, err := b.ctx.Load(ptx)
	if err != nil {
		return err
	}
	b.undo = append(b.undo, module.Close)
	if b.kernel, err = module.Function("rewrite"); err != nil {
		return err
	}
	each, err := b.kernel.BlocksPerMultiprocessor(threads, 0)
	if err != nil {
		return err
	}
	b.blocks = uint32(each * multiprocessors)
	if b.stream, err = b.ctx.NewStream(0); err != nil {
		return err
	}
	b.undo = append(b.undo, b.stream.Close)
	mem, err := umem.New(frames)
	if err != nil {
		return err
	}
	b.undo = append(b.undo, mem.Close)
	if b.memory, err = b.ctx.Register(mem.Bytes()); err != nil {
		return err
	}
	b.undo = append(b.undo, b.memory.Close)
	if b.order, err = b.ctx.Alloc(4 * frames); err != nil {
		return err
	}
	b.undo = append(b.undo, b.order.Close)
	order := make([]byte, 0, 4*frames)
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(frames) {
		order = binary.LittleEndian.AppendUint32(order, uint32(i*umem.FrameSize))
	}
	return b.order.Write(0, order)
}

func (b *bench) close() (err error) {
	for i := len(b.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, b.undo[i]())
	}
	return err
}

// rate measures one shape.
func (b *bench) rate(s Shape) (mpps float64, err error) {
	p := s.params()
	p.Memory, p.Frames, p.N, p.Times = b.memory.Ptr(), b.order.Ptr(), frames, 4
	launch, err := cuda.NewLaunch(b.kernel, &struct{ Shape params }{*p})
	if err != nil {
		return 0, err
	}
	launch.Grid.X, launch.Block.X = b.blocks, threads
	for range 8 {
		start := time.Now()
		if err := errors.Join(launch.Enqueue(b.stream), b.stream.Synchronize()); err != nil {
			return 0, err
		}
		mpps = max(mpps, float64(p.N*p.Times)/1e6/time.Since(start).Seconds())
	}
	return mpps, nil
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
