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

//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh forward.cu"

//go:embed kernel/forward.ptx
var kernels []byte

// Mode is how chunks reach the GPU.
type Mode string

const (
	Resident Mode = "resident" // by a kernel that stays
	Launched Mode = "launched" // by a launch for each
)

// Options describe how a device is used. Zero values mean the defaults.
type Options struct {
	Mode    Mode          // Resident
	Timeout time.Duration // for a chunk, after which its worker does without the device; 20 ms
	Pause   time.Duration // until that worker tries again; doubles while it fails, up to 60 times; 1 s
	Repair  []bool        // by port: L4 checksums of frames received there may be unfinished
	Library string        // the driver's; for tests

	// Chunks of up to so many packets are left to the CPU while a worker has no others in
	// flight: it is done with them before the GPU could answer. 0: none.
	Small int

	// Shadow is N where the CPU repeats one in N chunks of each worker's GPU. A different result
	// takes the GPU out of use. 0: none.
	Shadow int

	// Gateway is what the CPU engines that the workers fall back on were given, if they
	// were; nobody may change it while the device is opened or closed.
	Gateway *gateway.Gateway

	// GPUs that OpenAll opens, the first ones: that one of them cannot be used is an error
	// then. 0: those that can be used, up to one for each worker.
	GPUs int

	// The engines that will be asked for, and the chunks of each, where that is known:
	// a device that has no room for them is not opened.
	Workers, Chunks int
	// Workers that OpenAll finds no room for have as few chunks each as this; 0: no fewer.
	LeastChunks int
}

// Device is a GPU that workers' engines use, with a copy of the forwarding base.
type Device struct {
	options  Options
	number   int // as the driver counts
	info     cuda.DeviceInfo
	ctx      *cuda.Context
	health   health
	base     *fib.FIB
	tables   *tables
	pointers tablePointers
	entries  struct{ resident, launched, patch *cuda.Function }
	vault    *vault // nil: the router is no gateway

	abandoned sync.Once     // see abandon
	destroyed chan struct{} // closed when abandon has tried to destroy the context

	engines []*Engine
	blocks  int                        // that can be resident at once
	taken   int                        // of them, by engines
	follows []func()                   // end what the tables follow
	stops   []func(by time.Time) error // end what runs
	closers []func() error             // in order of making
}

// ErrNoDriver is wrapped by the error of opening on a host without NVIDIA's driver.
var ErrNoDriver = cuda.ErrNoDriver

// open opens a GPU, which has that number by the driver, and brings the forwarding base to it,
// which nobody may change meanwhile; afterwards the copy follows. An error says what is missing.
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

// prepare loads the kernels and fills the tables.
func (d *Device) prepare() error {
	module, err := d.ctx.Load(kernels)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, module.Close)
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
		blocks, err = d.prepareGateway()
	} else {
		blocks, err = d.entries.resident.BlocksPerMultiprocessor(threads, shared)
	}
	if err != nil {
		return err
	}
	d.blocks = blocks*d.info.Multiprocessors - 1 // changes of tables need one
	if err := d.fits(d.options.Workers, d.options.Chunks); err != nil {
		return err
	}
	if err := d.makeTables(); err != nil {
		return err
	}
	if d.options.Gateway != nil {
		d.follows = append(d.follows, d.options.Gateway.Follow(d.vault.holder))
	}
	return d.health.err()
}

// NewEngine returns the engine of a worker whose frames are in umem. chunks is how
// many chunks of up to size packets it may have in flight; fallback decides when
// the GPU cannot.
func (d *Device) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	if err := d.fits(1, chunks); err != nil {
		return nil, err
	}
	mail, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, mail.close)
	e := newEngine(fallback, &d.health, mail, umem, d.options)
	e.turns = &d.tables.now
	if err := d.secure(e, chunks, size); err != nil {
		return nil, err
	}
	e.shadow = newShadow(e, size, d.options.Shadow, d.tables.patcher)
	if err := d.ctx.Do(func() error { return d.serve(e, umem) }); err != nil {
		return nil, fmt.Errorf("have GPU %d serve a worker: %w", d.number, err)
	}
	d.engines = append(d.engines, e)
	d.taken += chunks
	return e, nil
}

// room is how many more workers with so many chunks each the device can serve.
func (d *Device) room(chunks int) int {
	return min((d.blocks-d.taken)/max(chunks, 1), maxWorkers-len(d.engines))
}

// fits tells whether the device can serve so many more workers, with so many chunks
// in flight each.
func (d *Device) fits(workers, chunks int) error {
	switch {
	case workers > 0 && chunks < 1 || chunks > maxChunks:
		return fmt.Errorf("have a GPU work on %d chunks of a worker: 1 to %d are possible", chunks, maxChunks)
	case len(d.engines)+workers > maxWorkers:
		return fmt.Errorf("have a GPU serve %d workers: %d are possible, as the driver has no more queues; set workers", len(d.engines)+workers, maxWorkers)
	case workers*chunks > d.blocks-d.taken:
		return fmt.Errorf("have a GPU work on %d more chunks: its %d multiprocessors have room for %d; set fewer workers",
			workers*chunks, d.info.Multiprocessors, d.blocks-d.taken)
	}
	return nil
}

// Close ends what runs on the device and gives everything back. No engine may be in
// use any more, and nobody may change the forwarding base meanwhile. What cannot be
// ended is an error; then the driver keeps what it holds until the process ends.
func (d *Device) Close() error {
	if err := d.halt(); err != nil {
		return err
	}
	return d.release()
}

// halt ends what runs, and the following of the base.
func (d *Device) halt() error {
	d.abandoned.Do(func() { close(d.destroyed) })
	select {
	case <-d.destroyed:
	case <-time.After(haltTime):
		return fmt.Errorf("destroy the context of GPU %d: it did not end within %v", d.number, haltTime)
	}
	for _, end := range d.follows {
		end()
	}
	if d.tables != nil {
		d.tables.patcher.close()
	}
	by := time.Now().Add(haltTime)
	for _, stop := range slices.Backward(d.stops) {
		if err := d.ctx.Do(func() error { return stop(by) }); err != nil {
			return fmt.Errorf("end what runs on GPU %d: %w", d.number, err)
		}
	}
	d.stops = nil
	return nil
}

// release gives everything back. As long as anything runs, it would wait.
func (d *Device) release() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, d.ctx.Do(c))
	}
	d.closers = nil
	return errors.Join(append(errs, d.ctx.Close())...)
}
