package gpu

import (
	"fmt"
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
	Slots                                                   cuda.DevicePtr
	SlotBytes, Results, Quads, Heads, Halves, Answers, Umem uint32
	Frames                                                  cuda.DevicePtr
	Tables                                                  tablePointers
}

// Of a block: threads, which forward.cu has, too, and bytes of shared memory, as mailbox.h.
const (
	threads = 512
	shared  = 75784
)

// serve lets the device reach a worker's memory, and starts the worker's kernel.
func (d *Device) serve(e *Engine, umem []byte) error {
	p, stream, err := d.attach(e, umem)
	if err != nil {
		return err
	}
	if d.options.Mode == Launched {
		return d.launchEach(e, stream, p)
	}
	kernel, err := d.kernel(e, p)
	if err != nil {
		return err
	}
	if err := kernel.Enqueue(stream); err != nil {
		return err
	}
	d.stops = append(d.stops, func(by time.Time) error { return e.stop(stream, by) })
	return nil
}

// attach lets the device reach a worker's memory. It returns what kernels are told of it,
// and where to start them.
func (d *Device) attach(e *Engine, umem []byte) (params, *cuda.Stream, error) {
	frames, err := d.ctx.Register(umem)
	if err != nil {
		return params{}, nil, err
	}
	d.closers = append(d.closers, frames.Close)
	mail, err := d.ctx.Register(e.mail.mem)
	if err != nil {
		return params{}, nil, err
	}
	d.closers = append(d.closers, mail.Close)
	stream, err := d.ctx.NewStream(0)
	if err != nil {
		return params{}, nil, err
	}
	d.closers = append(d.closers, stream.Close)
	return params{
		Slots: mail.Ptr(), SlotBytes: uint32(e.mail.slotBytes), Results: doneBytes, Quads: uint32(e.mail.quadsAt), Heads: uint32(e.mail.headsAt),
		Halves: uint32(e.mail.halvesAt), Answers: uint32(e.mail.answersAt), Umem: uint32(len(umem)), Frames: frames.Ptr(), Tables: d.pointers,
	}, stream, nil
}

// kernel returns an engine's kernel that stays, of which a block serves a slot.
func (d *Device) kernel(e *Engine, p params) (kernel *cuda.Launch, err error) {
	if e.securer != nil {
		kernel, err = d.gatewayKernel(e, p)
	} else if kernel, err = cuda.NewLaunch(d.entries.resident, &struct{ M params }{p}); err == nil {
		kernel.Block, kernel.Shared = cuda.Dim{X: threads}, shared
	}
	if err == nil {
		kernel.Grid = cuda.Dim{X: uint32(len(e.mail.slots))}
	}
	return kernel, err
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
	kernel.Block, kernel.Shared = cuda.Dim{X: threads}, shared
	d.stops = append(d.stops, func(by time.Time) error { return waitUntil(by, stream.Done) })
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

// stop ends an engine's resident kernel, when it has finished what it was given.
func (e *Engine) stop(stream *cuda.Stream, by time.Time) error {
	if err := waitUntil(by, func() (bool, error) {
		_, err := stream.Done() // tells of a fault
		return e.mail.idle(), err
	}); err != nil {
		return err
	}
	for i := range e.mail.slots {
		e.mail.slots[i].stop()
	}
	return waitUntil(by, stream.Done)
}

// haltTime is what a device has to end what runs on it.
const haltTime = time.Second

// waitUntil waits until a condition holds or the time is up.
func waitUntil(by time.Time, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		switch {
		case ok || err != nil:
			return err
		case time.Now().After(by):
			return fmt.Errorf("it did not finish within %v", haltTime)
		}
		time.Sleep(50 * time.Microsecond)
	}
}
