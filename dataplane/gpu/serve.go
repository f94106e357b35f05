package gpu

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
)

const (
	maxChunks = 64 // of a worker: a bit each
	// Each worker's stream needs a hardware queue of its own, of 32: work behind a resident kernel in
	// the same queue never starts.
	maxWorkers = 28
)

// params is the first parameter of the kernels: struct mailbox of mailbox.h.
type params struct {
	Slots                                                                        cuda.DevicePtr
	SlotBytes, Results, Descriptors, Headers, ShortHeaders, Completions, UmemLen uint32
	Umem                                                                         cuda.DevicePtr
	Tables                                                                       tablePointers
}

// Size of a block of the forwarding kernels, as in forward.cu and mailbox.h.
const (
	threads = 512
	shared  = 75784 // bytes of shared memory
)

// serve maps a worker's memory for the device and starts the worker's kernel.
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

// attach maps a worker's memory for the device. It returns the kernel's parameters and its stream.
func (d *Device) attach(e *Engine, umem []byte) (params, *cuda.Stream, error) {
	frames, err := d.register(umem)
	if err != nil {
		return params{}, nil, err
	}
	mailbox, err := d.register(e.mailbox.Bytes)
	if err != nil {
		return params{}, nil, err
	}
	stream, err := d.newStream(0)
	if err != nil {
		return params{}, nil, err
	}
	return params{
		Slots: mailbox.Ptr(), SlotBytes: uint32(e.mailbox.slotBytes), Results: doneBytes,
		Descriptors: uint32(e.mailbox.descriptorsAt), Headers: uint32(e.mailbox.headersAt), ShortHeaders: uint32(e.mailbox.shortHeadersAt),
		Completions: uint32(e.mailbox.completionsAt), UmemLen: uint32(len(umem)), Umem: frames.Ptr(), Tables: d.pointers,
	}, stream, nil
}

// kernel returns the launch of an engine's resident kernel, with a block per slot.
func (d *Device) kernel(e *Engine, p params) (kernel *cuda.Launch, err error) {
	if e.ipsec != nil {
		kernel, err = d.ipsecKernel(e, p)
	} else if kernel, err = cuda.NewLaunch(d.entries.resident, &struct{ M params }{p}); err == nil {
		kernel.Block, kernel.Shared = cuda.Dim{X: threads}, shared
	}
	if err == nil {
		kernel.Grid = cuda.Dim{X: uint32(len(e.mailbox.slots))}
	}
	return kernel, err
}

// launchEach sets the engine up to launch a kernel for each chunk.
func (d *Device) launchEach(e *Engine, stream *cuda.Stream, p params) error {
	finished, err := d.alloc(4 * len(e.mailbox.slots))
	if err != nil {
		return err
	}
	if err := stream.Fill32(finished.Ptr(), 0, len(e.mailbox.slots)); err != nil {
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
		if !bound { // on the worker's thread
			if err := d.ctx.Bind(); err != nil {
				return err
			}
			bound = true
		}
		args.Number, args.Seq, args.N = uint32(slot), seq, uint32(n)
		args.Finished = finished.Ptr().Add(4 * slot)
		kernel.Grid = cuda.Dim{X: uint32((n + threads/32*batchFrames - 1) / (threads / 32 * batchFrames))}
		return kernel.Enqueue(stream)
	}
	return nil
}

// stop ends an engine's resident kernel after its last chunk.
func (e *Engine) stop(stream *cuda.Stream, by time.Time) error {
	if err := waitUntil(by, func() (bool, error) {
		_, err := stream.Done() // reports a fault
		return e.mailbox.idle(), err
	}); err != nil {
		return err
	}
	for i := range e.mailbox.slots {
		e.mailbox.slots[i].stop()
	}
	return waitUntil(by, stream.Done)
}

// haltTimeout limits the wait for the end of work on a device.
const haltTimeout = time.Second

// waitUntil polls a condition until it holds, or until a deadline.
func waitUntil(by time.Time, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		switch {
		case ok || err != nil:
			return err
		case time.Now().After(by):
			return fmt.Errorf("not finished within %v", haltTimeout)
		}
		time.Sleep(50 * time.Microsecond)
	}
}
