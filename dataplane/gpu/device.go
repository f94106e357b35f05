package gpu

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh forward.cu"

//go:embed kernel/forward.ptx
var kernels []byte

// Mode is how the GPU receives chunks.
type Mode string

const (
	Resident Mode = "resident" // by a resident kernel's polling
	Launched Mode = "launched" // by a kernel launch per chunk
)

// Options describe how a device is used. Zero values mean the defaults.
type Options struct {
	Mode             Mode          // Resident
	Timeout          time.Duration // for a chunk; a timeout is an outage of the worker's GPU; 20 ms
	Pause            time.Duration // until the worker retries; doubles up to 60 times on repeated timeouts; 1 s
	PartialChecksums []bool        // by port: received frames may have partial L4 checksums
	Library          string        // path of libcuda; for tests

	// Small is the largest chunk that the CPU executes while a worker has no other chunk in flight,
	// as the CPU finishes it earlier. 0: none.
	Small int

	// Shadow is N if the CPU repeats one in N chunks of each worker's GPU. A different result takes
	// the GPU out of use. 0: off.
	Shadow int

	// Gateway is the IPsec gateway of the workers' CPU engines, nil without IPsec. It must not change
	// while a device is opened or closed.
	Gateway *gateway.Gateway

	// GPUs is the number of GPUs that OpenAll opens; a failure of one is an error. 0: all that work, up
	// to one per worker.
	GPUs int

	// Workers and Chunks are the expected engines and the chunks of each. A device with less capacity
	// is not opened. 0: unknown.
	Workers, Chunks int
	// LeastChunks is the smallest number of chunks per worker that OpenAll reduces Chunks to if the
	// capacity is too small. 0: no reduction.
	LeastChunks int
}

// Device is a GPU with a copy of the FIB. It serves the engines of several workers.
type Device struct {
	options  Options
	number   int // the driver's ordinal
	info     cuda.DeviceInfo
	ctx      *cuda.Context
	state    deviceState
	base     *fib.FIB
	tables   *tables
	pointers tablePointers
	entries  struct{ resident, launched, patch *cuda.Function }
	keyTable *keyTable // nil: no IPsec

	destroyOnce sync.Once     // see destroyContext
	destroyed   chan struct{} // closed after destroyContext

	engines  []*Engine
	blocks   int                        // resident blocks that fit
	taken    int                        // blocks of the engines
	unfollow []func()                   // end the following of tables
	stops    []func(by time.Time) error // end running kernels
	closers  []func() error             // in the order of creation
}

// ErrNoDriver is wrapped by the error of OpenAll on a host without the CUDA driver.
var ErrNoDriver = cuda.ErrNoDriver

// open opens a GPU and copies the FIB, which must not change meanwhile. Afterwards the copy
// follows the base.
func open(found *cuda.Device, number int, base *fib.FIB, o Options) (*Device, error) {
	d := &Device{options: o.withDefaults(), number: number, base: base, destroyed: make(chan struct{})}
	err := d.open(found)
	if err != nil {
		return nil, fmt.Errorf("use GPU %d: %w", number, err)
	}
	return d, nil
}

func (o Options) withDefaults() Options {
	o.Mode = cmp.Or(o.Mode, Resident)
	o.Timeout = cmp.Or(o.Timeout, 20*time.Millisecond)
	o.Pause = cmp.Or(o.Pause, time.Second)
	return o
}

func (d *Device) open(found *cuda.Device) (err error) {
	if d.info, err = found.Info(); err != nil {
		return err
	}
	if d.ctx, err = found.Retain(); err != nil {
		return err
	}
	if err := d.ctx.Do(d.prepare); err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}

// prepare loads the kernels and copies the tables.
func (d *Device) prepare() error {
	module, err := d.load(kernels)
	if err != nil {
		return err
	}
	for name, to := range map[string]**cuda.Function{
		"resident": &d.entries.resident, "launched": &d.entries.launched, "patch_tables": &d.entries.patch,
	} {
		if *to, err = module.Function(name); err != nil {
			return err
		}
	}
	for _, f := range []*cuda.Function{d.entries.resident, d.entries.launched} {
		if err := f.SetAttribute(cuda.MaxDynamicShared, shared); err != nil {
			return err
		}
	}
	var blocks int
	if d.options.Gateway != nil {
		blocks, err = d.loadGateway()
	} else {
		blocks, err = d.entries.resident.BlocksPerMultiprocessor(threads, shared)
	}
	if err != nil {
		return err
	}
	d.blocks = blocks*d.info.Multiprocessors - 1 // table patches need one
	if err := d.fits(d.options.Workers, d.options.Chunks); err != nil {
		return err
	}
	if err := d.makeTables(); err != nil {
		return err
	}
	if d.options.Gateway != nil {
		d.unfollow = append(d.unfollow, d.options.Gateway.Follow(d.keyTable.keyWriter))
	}
	return d.state.err()
}

// NewEngine returns the engine of a worker with frames in umem and up to chunks chunks in flight, of up
// to size packets each. fallback executes chunks while the GPU is out of use.
func (d *Device) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	if err := d.fits(1, chunks); err != nil {
		return nil, err
	}
	mailbox, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, mailbox.Close)
	e := newEngine(fallback, &d.state, mailbox, umem, d.options)
	e.generation = &d.tables.queuedGeneration
	if err := d.addIPsec(e, chunks, size); err != nil {
		return nil, err
	}
	e.shadow = newShadow(e, size, d.options.Shadow, d.tables.patcher)
	if err := d.ctx.Do(func() error { return d.serve(e, umem) }); err != nil {
		return nil, fmt.Errorf("start a worker's engine on GPU %d: %w", d.number, err)
	}
	d.engines = append(d.engines, e)
	d.taken += chunks
	return e, nil
}

// room returns the number of further workers that fit on the device, with a number of chunks each.
func (d *Device) room(chunks int) int {
	return min((d.blocks-d.taken)/max(chunks, 1), maxWorkers-len(d.engines))
}

// fits checks the capacity of the device for further workers, with a number of chunks each.
func (d *Device) fits(workers, chunks int) error {
	switch {
	case workers > 0 && chunks < 1 || chunks > maxChunks:
		return fmt.Errorf("%d chunks per worker on a GPU: the range is 1 to %d", chunks, maxChunks)
	case len(d.engines)+workers > maxWorkers:
		return fmt.Errorf("%d workers on a GPU: at most %d are possible, one per hardware queue; set workers", len(d.engines)+workers, maxWorkers)
	case workers*chunks > d.blocks-d.taken:
		return fmt.Errorf("%d more chunks on a GPU: its %d multiprocessors have room for %d; set fewer workers",
			workers*chunks, d.info.Multiprocessors, d.blocks-d.taken)
	}
	return nil
}

// Close ends the kernels of the device and frees its resources. Its engines must no longer be in use, and
// the FIB must not change meanwhile. If a kernel does not end, Close returns an error, and
// the driver keeps the resources until the process ends.
func (d *Device) Close() error {
	if err := d.halt(); err != nil {
		return err
	}
	return d.release()
}

// halt ends the kernels and the following of the base.
func (d *Device) halt() error {
	d.destroyOnce.Do(func() { close(d.destroyed) })
	select {
	case <-d.destroyed:
	case <-time.After(haltTimeout):
		return fmt.Errorf("destroy the context of GPU %d: not finished within %v", d.number, haltTimeout)
	}
	for _, end := range d.unfollow {
		end()
	}
	if d.tables != nil {
		d.tables.patcher.close()
	}
	by := time.Now().Add(haltTimeout)
	for _, stop := range slices.Backward(d.stops) {
		if err := d.ctx.Do(func() error { return stop(by) }); err != nil {
			return fmt.Errorf("end the kernels of GPU %d: %w", d.number, err)
		}
	}
	d.stops = nil
	return nil
}

// release frees all resources. It waits for running kernels.
func (d *Device) release() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, d.ctx.Do(c))
	}
	d.closers = nil
	return errors.Join(append(errs, d.ctx.Close())...)
}
