package pcie

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/umem"
)

// bench holds the resources of a measurement on one device.
type bench struct {
	ctx    *cuda.Context // nil: not open
	kernel *cuda.Function
	blocks uint32
	stream *cuda.Stream
	memory *cuda.HostMemory
	order  *cuda.Memory
	undo   []func() error
}

// open prepares a device, of which the kernel uses at most a number of multiprocessors; 0: all.
func (b *bench) open(device *cuda.Device, most int) error {
	info, err := device.Info()
	if err != nil {
		return err
	}
	retain := device.Retain
	if most > 0 && most < info.Multiprocessors {
		parts, _, err := device.Split(1, most)
		if err != nil {
			return err
		}
		if len(parts) > 0 {
			retain, info.Multiprocessors = parts[0].Retain, parts[0].Multiprocessors()
		}
	}
	if b.ctx, err = retain(); err != nil {
		return err
	}
	return b.ctx.Do(func() error { return b.prepare(info.Multiprocessors) })
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

func (b *bench) close() error {
	if b.ctx == nil {
		return nil
	}
	err := b.ctx.Do(func() (err error) {
		for i := len(b.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, b.undo[i]())
		}
		return err
	})
	return errors.Join(err, b.ctx.Close())
}

// pass rewrites all frames, times times.
func (b *bench) pass(s Shape) error {
	p := s.params()
	p.Memory, p.Frames, p.N, p.Times = b.memory.Ptr(), b.order.Ptr(), frames, times
	launch, err := cuda.NewLaunch(b.kernel, &struct{ Shape params }{*p})
	if err != nil {
		return err
	}
	launch.Grid.X, launch.Block.X = b.blocks, threads
	return errors.Join(launch.Enqueue(b.stream), b.stream.Synchronize())
}
