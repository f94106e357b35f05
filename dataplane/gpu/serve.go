package gpu

import (
	"errors"
	"time"

	"github.com/warproute/warproute/cuda"
)

const (
	maxChunks = 64 // of a worker: a bit each
	// Every worker's stream has a queue of its own to the device, of 32; behind a
	// resident kernel in the same queue, nothing else would ever run.
	maxWorkers = 28
)

// params are what kernels get to know of a mailbox; mailbox.h has the same.
type params struct {
	Slots                                  cuda.DevicePtr
	SlotBytes, Results, Quads, Heads, Umem uint32
	Frames                                 cuda.DevicePtr
	Tables                                 tablePointers
}

// threads of a block; forward.cu has the same.
const threads = 512

// serve lets the device reach a worker's memory, and starts the worker's kernel.
func (d *Device) serve(e *Engine, umem []byte) error {
	frames, err := d.ctx.Register(umem)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, frames.Close)
	mail, err := d.ctx.Register(e.mail.mem)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, mail.Close)
	stream, err := d.ctx.NewStream(0)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, stream.Close)
	p := params{
		Slots: mail.Ptr(), SlotBytes: uint32(e.mail.slotBytes), Results: doneBytes, Quads: uint32(e.mail.quadsAt), Heads: uint32(e.mail.headsAt),
		Umem: uint32(len(umem)), Frames: frames.Ptr(), Tables: d.pointers,
	}
	if d.options.Mode == Launched {
		return d.launchEach(e, stream, p)
	}
	kernel, err := cuda.NewLaunch(d.entries.resident, &struct{ M params }{p})
	if err != nil {
		return err
	}
	kernel.Grid, kernel.Block = cuda.Dim{X: uint32(len(e.mail.slots))}, cuda.Dim{X: threads}
	if err := kernel.Enqueue(stream); err != nil {
		return err
	}
	d.stops = append(d.stops, func() error { return d.stop(e, stream) })
	return nil
}

// launchEach has the engine launch a kernel for each chunk.
func (d *Device) launchEach(e *Engine, stream *cuda.Stream, p params) error {
	finished, err := d.ctx.Alloc(4 * len(e.mail.slots))
	if err != nil {
		return err
	}
	d.closers = append(d.closers, finished.Close)
	if err := stream.Fill32(finished.Ptr(), 0, len(e.mail.slots)); err != nil {
		return err
	}
	args := &struct {
		M              params
		Number, Seq, N uint32
		Finished       cuda.DevicePtr
	}{M: p}
	kernel, err := cuda.NewLaunch(d.entries.launched, args)
	if err != nil {
		return err
	}
	kernel.Block = cuda.Dim{X: threads}
	bound := false
	e.launch = func(slot int, seq uint32, n int) error {
		if !bound { // on the worker's own thread
			if err := d.ctx.Bind(); err != nil {
				return err
			}
			bound = true
		}
		args.Number, args.Seq, args.N = uint32(slot), seq, uint32(n)
		args.Finished = finished.Ptr().Add(4 * slot)
		kernel.Grid = cuda.Dim{X: uint32((n + threads/32*quadFrames - 1) / (threads / 32 * quadFrames))}
		return kernel.Enqueue(stream)
	}
	return nil
}

// stop ends an engine's resident kernel.
func (d *Device) stop(e *Engine, stream *cuda.Stream) error {
	for i := range e.mail.slots {
		e.mail.slots[i].stop()
	}
	for start := time.Now(); ; {
		done, err := stream.Done()
		if done || err != nil {
			return err
		}
		if time.Since(start) > time.Second {
			d.health.fail(errors.New("the resident kernel does not end"))
			return d.health.err()
		}
		time.Sleep(50 * time.Microsecond)
	}
}
