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
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh forward.cu"

//go:embed kernel/forward.ptx
var kernels []byte

// Device is a GPU with a copy of the FIB. It serves the engines of several workers.
type Device struct {
	options         Options
	number          int // the driver's ordinal
	multiprocessors int // that the kernel may use
	info            cuda.DeviceInfo
	sharing         cuda.Sharing
	ctx             *cuda.Context
	state           deviceState
	fib             *fib.FIB
	tables          *tables
	pointers        tablePointers
	forward         *cuda.Function
	patch           *cuda.Function
	ipsecTables     *ipsecTables // nil: no IPsec
	kernel          *kernel
	shape           Shape // of the kernel
	control         *controller

	destroyOnce sync.Once     // see destroyContext
	destroyed   chan struct{} // closed after destroyContext

	engines  []*Engine
	unfollow []func()                   // end the following of tables
	stops    []func(by time.Time) error // end running kernels
	closers  []func() error             // in the order of creation
}

const (
	maxChunks  = 64          // of a worker
	maxWorkers = tileWorkers // of a device
)

// ErrNoDriver is wrapped by the error of OpenAll on a host without the CUDA driver.
var ErrNoDriver = cuda.ErrNoDriver

// open opens a GPU and copies the FIB, which must not change meanwhile. Afterwards the copy
// follows the FIB.
func open(found *cuda.Device, number int, f *fib.FIB, o Options) (*Device, error) {
	d := &Device{options: o.withDefaults(), number: number, fib: f, destroyed: make(chan struct{})}
	err := d.open(found)
	if err != nil {
		return nil, fmt.Errorf("use GPU %d: %w", number, err)
	}
	return d, nil
}

func (d *Device) open(found *cuda.Device) (err error) {
	if d.info, err = found.Info(); err != nil {
		return err
	}
	if d.sharing, err = found.Sharing(); err != nil {
		return err
	}
	d.options.Limit = d.options.limitOf(d.sharing)
	if d.ctx, d.multiprocessors, err = openContext(found, d.options.Multiprocessors); err != nil {
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
	for name, to := range map[string]**cuda.Function{"resident": &d.forward, "patch_tables": &d.patch} {
		if *to, err = module.Function(name); err != nil {
			return err
		}
	}
	if err := d.makeTables(); err != nil {
		return err
	}
	if err := d.makeKernel(); err != nil {
		return err
	}
	if g := d.options.Gateway; g != nil {
		d.unfollow = append(d.unfollow, g.Follow(d.shape.filter(d.ipsecTables)))
	}
	return d.state.err()
}

// makeKernel prepares the resident kernel, with as many blocks as fit. Two blocks more are for the
// watcher and for table patches.
func (d *Device) makeKernel() (err error) {
	l, err := readLimits(d.ctx.Device(), d.options.SharedLimit)
	if err != nil {
		return err
	}
	f, needs := d.forward, forwardNeeds
	if d.options.Gateway != nil {
		needs = gatewayNeeds
	}
	s, err := needs.withWarps(d.options.Warps).shape(l)
	if err != nil {
		return err
	}
	if d.options.Gateway != nil {
		if f, err = d.loadGateway(s); err != nil {
			return err
		}
	}
	if err := f.SetAttribute(cuda.MaxDynamicShared, s.Shared); err != nil {
		return err
	}
	each, err := f.BlocksPerMultiprocessor(s.Threads(), s.Shared)
	if err != nil {
		return err
	}
	s.BlocksPerMultiprocessor = min(s.BlocksPerMultiprocessor, each) // fewer by registers, or by SharedLimit
	blocks := min(s.BlocksPerMultiprocessor*d.multiprocessors-2, cmp.Or(d.options.blocks, maxBlocks))
	if blocks < 1 {
		return fmt.Errorf("%d multiprocessors have room for %d blocks each; at least 3 blocks are needed", d.multiprocessors, s.BlocksPerMultiprocessor)
	}
	d.shape = s
	if d.kernel, err = d.newKernel(f, blocks, s.Warps, uint32(s.Shared)); err != nil {
		return err
	}
	d.control = startController(d.kernel, d.options.Park)
	return nil
}

// NewEngine returns the engine of a worker with frames in umem and up to chunks chunks in flight, of up
// to size packets each. fallback executes chunks while the GPU is out of use. Unless Options.Park is set,
// the kernel runs when it returns.
func (d *Device) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	if err := d.fits(1); err != nil {
		return nil, err
	}
	if chunks < 1 || chunks > maxChunks {
		return nil, fmt.Errorf("%d chunks of a worker on a GPU: the range is 1 to %d", chunks, maxChunks)
	}
	k := d.kernel
	e := newEngine(fallback, &d.state, &k.state, k.mailbox, k.pool, umem, d.options)
	e.number, e.queuedGeneration = uint32(len(d.engines)), &d.tables.queuedGeneration
	switch {
	case d.ipsecTables == nil && e.esp != nil:
		return nil, errors.New("GPU engine for an IPsec worker: the GPU was opened without IPsec")
	case d.ipsecTables != nil && e.esp == nil:
		return nil, errors.New("GPU engine for a worker without IPsec: the GPU was opened with IPsec")
	case d.ipsecTables != nil:
		e.ipsec, e.lender = newIPsecPath(chunks, size, maxKeys), d.ipsecTables.lender
		e.esp.SetHostDecryptsCBC(d.shape.WithoutCBC)
	}
	e.shadow = newShadow(e, size, d.options.Shadow, d.tables.patcher)
	if err := d.attach(e, umem); err != nil {
		return nil, fmt.Errorf("start a worker's engine on GPU %d: %w", d.number, err)
	}
	d.engines = append(d.engines, e)
	if d.ipsecTables != nil {
		d.ipsecTables.engines.add(e)
	}
	if e.lender != nil {
		e.lender.users.add(e)
	}
	return e, nil
}

// attach adds a worker to the kernel, which is parked meanwhile.
func (d *Device) attach(e *Engine, umem []byte) error {
	k := d.kernel
	if parked, err := k.park(haltTimeout); err != nil {
		return err
	} else if !parked {
		if err := d.state.err(); err != nil {
			return err
		}
		return fmt.Errorf("the kernel has not finished its chunks within %v", haltTimeout)
	}
	if err := d.ctx.Do(func() error { return k.addWorker(int(e.number), umem) }); err != nil {
		return err
	}
	k.mu.Lock()
	d.control.engines = append(d.control.engines, e)
	k.mu.Unlock()
	if d.options.Park > 0 {
		return nil
	}
	if err := k.wake(); err != nil {
		return err
	}
	k.state.requestWake() // the controller looks at it from now on
	return nil
}

// room returns the number of further workers that fit on the device.
func (d *Device) room() int { return maxWorkers - len(d.engines) }

// fits checks the capacity of the device for further workers.
func (d *Device) fits(workers int) error {
	if workers > d.room() {
		return fmt.Errorf("%d workers on a GPU: at most %d are possible; set workers", len(d.engines)+workers, maxWorkers)
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

// halt ends the kernels and the following of the FIB.
func (d *Device) halt() error {
	d.destroyOnce.Do(func() { close(d.destroyed) })
	select {
	case <-d.destroyed:
	case <-time.After(haltTimeout):
		return fmt.Errorf("destroy the context of GPU %d: not finished within %v", d.number, haltTimeout)
	}
	if d.kernel != nil {
		d.kernel.lender.end()
	}
	for _, end := range d.unfollow {
		end()
	}
	if d.tables != nil {
		d.tables.patcher.close()
	}
	by := time.Now().Add(haltTimeout)
	if d.control != nil {
		d.control.close()
		d.control = nil
	}
	if d.kernel != nil {
		if err := d.kernel.halt(by); err != nil {
			return fmt.Errorf("end the kernel of GPU %d: %w", d.number, err)
		}
	}
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
