package tenant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
)

// gpu holds the resources of a measurement on one device.
type gpu struct {
	ctx        *cuda.Context // nil: not open
	name       string
	stream     *cuda.Stream
	start, end *cuda.Event
	out        *cuda.Memory // a result per block
	launch     *cuda.Launch
	params     params
	undo       []func() error
}

// params are the kernel's parameters.
type params struct {
	Out        cuda.DevicePtr
	Iterations uint32
}

// open loads the kernel on a device. With 0 blocks a kernel has as many as the device executes at once.
func (g *gpu) open(device *cuda.Device, blocks int) error {
	info, err := device.Info()
	if err != nil {
		return err
	}
	g.name = info.Name
	if g.ctx, err = device.Retain(); err != nil {
		return err
	}
	return g.ctx.Do(func() error { return g.prepare(info.Multiprocessors, blocks) })
}

func (g *gpu) prepare(multiprocessors, blocks int) (err error) {
	module, err := g.ctx.Load(ptx)
	if err != nil {
		return err
	}
	g.undo = append(g.undo, module.Close)
	kernel, err := module.Function("work")
	if err != nil {
		return err
	}
	if blocks == 0 {
		each, err := kernel.BlocksPerMultiprocessor(threads, 0)
		if err != nil {
			return err
		}
		blocks = each * multiprocessors
	}
	if g.stream, err = g.ctx.NewStream(0); err != nil {
		return err
	}
	g.undo = append(g.undo, g.stream.Close)
	for _, e := range []**cuda.Event{&g.start, &g.end} {
		if *e, err = g.ctx.NewEvent(cuda.EventDefault); err != nil {
			return err
		}
		g.undo = append(g.undo, (*e).Close)
	}
	if g.out, err = g.ctx.Alloc(4 * blocks); err != nil {
		return err
	}
	g.undo = append(g.undo, g.out.Close)
	g.params.Out = g.out.Ptr()
	if g.launch, err = cuda.NewLaunch(kernel, &g.params); err != nil {
		return err
	}
	g.launch.Grid.X, g.launch.Block.X = uint32(blocks), threads
	return nil
}

func (g *gpu) close() error {
	if g.ctx == nil {
		return nil
	}
	err := g.ctx.Do(func() (err error) {
		for i := len(g.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, g.undo[i]())
		}
		return err
	})
	return errors.Join(err, g.ctx.Close())
}

// run runs a kernel of n iterations to its end.
func (g *gpu) run(n uint32) error {
	g.params.Iterations = n
	if err := g.launch.Enqueue(g.stream); err != nil {
		return err
	}
	return g.stream.Synchronize()
}

// shortest returns the shortest time of several kernels of n iterations by the device's clock. A kernel that
// another process interrupts takes longer.
func (g *gpu) shortest(n uint32) (least time.Duration, err error) {
	for i := range 20 {
		if err := errors.Join(g.start.Record(g.stream), g.run(n), g.end.Record(g.stream), g.stream.Synchronize()); err != nil {
			return 0, err
		}
		took, err := g.end.Since(g.start)
		if err != nil {
			return 0, err
		}
		if i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// verify compares the results of a kernel's blocks with the same computation in Go.
func (g *gpu) verify(n uint32) error {
	results := make([]byte, g.out.Size())
	if err := errors.Join(g.out.Write(0, results), g.run(n), g.out.Read(0, results)); err != nil {
		return err
	}
	want := expected(n)
	for block := range len(results) / 4 {
		if got := binary.LittleEndian.Uint32(results[4*block:]); got != want {
			return fmt.Errorf("verify before measuring: block %d computed %#x in %d iterations, want %#x", block, got, n, want)
		}
	}
	return nil
}
