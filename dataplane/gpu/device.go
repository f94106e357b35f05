package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
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
	Number  int           // of the device, as the driver counts
	Mode    Mode          // Resident
	Timeout time.Duration // for a chunk, after which the device counts as failed; 20 ms
	Repair  []bool        // by port: L4 checksums of frames received there may be unfinished
	Library string        // the driver's; for tests

	// The engines that will be asked for, and the chunks of each, where that is known:
	// a device that has no room for them is not opened.
	Workers, Chunks int
}

// Device is a GPU that workers' engines use, with a copy of the forwarding base.
type Device struct {
	options  Options
	info     cuda.DeviceInfo
	ctx      *cuda.Context
	health   health
	base     *fib.FIB
	tables   *tables
	follows  []func() // end what the tables follow
	pointers tablePointers
	entries  struct{ resident, launched, patch *cuda.Function }

	workers int            // with an engine
	room    int            // blocks that can be resident beside those that are
	stops   []func() error // end the resident kernels
	closers []func() error // in order of making
}

// ErrNoDriver is wrapped by Open's error on a host without NVIDIA's driver.
var ErrNoDriver = cuda.ErrNoDriver

// Open finds a GPU and brings the forwarding base to it, which nobody may change
// meanwhile; afterwards the copy follows. An error says what is missing.
func Open(base *fib.FIB, o Options) (*Device, error) {
	if o.Mode == "" {
		o.Mode = Resident
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Millisecond
	}
	driver, err := cuda.Open(o.Library)
	if err != nil {
		return nil, err
	}
	devices, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	if o.Number >= len(devices) {
		return nil, fmt.Errorf("use GPU %d: the driver has %d", o.Number, len(devices))
	}
	d := &Device{options: o, base: base}
	if d.info, err = devices[o.Number].Info(); err != nil {
		return nil, err
	}
	if d.ctx, err = devices[o.Number].Retain(); err != nil {
		return nil, err
	}
	if err := d.ctx.Do(d.prepare); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
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
	blocks, err := d.entries.resident.BlocksPerMultiprocessor(threads, 0)
	if err != nil {
		return err
	}
	d.room = blocks*d.info.Multiprocessors - 1 // changes of tables need one
	if err := d.fits(d.options.Workers, d.options.Chunks); err != nil {
		return err
	}
	return d.makeTables()
}

// NewEngine returns the engine of a worker whose frames are in umem. chunks is how
// many chunks of up to size packets it may have in flight; fallback decides when
// the GPU cannot.
func (d *Device) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	if err := d.fits(1, chunks); err != nil {
		return nil, err
	}
	d.workers++
	d.room -= chunks
	mail, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, mail.close)
	e := newEngine(fallback, &d.health, mail, umem, d.options.Timeout)
	return e, d.ctx.Do(func() error { return d.serve(e, umem) })
}

// fits tells whether the device can serve so many more workers, with so many chunks
// in flight each.
func (d *Device) fits(workers, chunks int) error {
	switch {
	case workers > 0 && chunks < 1 || chunks > maxChunks:
		return fmt.Errorf("have a GPU work on %d chunks of a worker: 1 to %d are possible", chunks, maxChunks)
	case d.workers+workers > maxWorkers:
		return fmt.Errorf("have a GPU serve %d workers: %d are possible, as the driver has no more queues; set workers", d.workers+workers, maxWorkers)
	case workers*chunks > d.room:
		return fmt.Errorf("have a GPU work on %d more chunks: its %d multiprocessors have room for %d; set fewer workers",
			workers*chunks, d.info.Multiprocessors, d.room)
	}
	return nil
}

// Err is why the device was taken out, nil while it works.
func (d *Device) Err() error {
	err := d.health.err()
	if err == nil {
		return nil
	}
	// After a kernel's fault every call fails, and tells of the fault; but only when
	// the driver has looked into it, for which it takes longer than we wait for chunks.
	cause := d.ctx.Do(func() error {
		s, err := d.ctx.NewStream(0)
		if err != nil {
			return err
		}
		return s.Close()
	})
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Info describes the device.
func (d *Device) Info() cuda.DeviceInfo { return d.info }

// Mode is how chunks reach the device.
func (d *Device) Mode() Mode { return d.options.Mode }

// Close ends what runs on the device and gives everything back. No engine may be in
// use any more, and nobody may change the forwarding base meanwhile. Of a device
// that has failed, the driver keeps what it holds until the process ends.
func (d *Device) Close() error {
	if d.tables != nil {
		for _, end := range d.follows {
			end()
		}
		d.tables.patcher.close()
	}
	if d.health.err() != nil {
		return nil
	}
	err := d.ctx.Do(func() error {
		// As long as any kernel is resident, nothing can be given back.
		for _, stop := range d.stops {
			if err := stop(); err != nil {
				return err
			}
		}
		var errs []error
		for _, c := range slices.Backward(d.closers) {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	})
	if d.health.err() != nil {
		return err
	}
	return errors.Join(err, d.ctx.Close())
}
