package gpu

import (
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// State is a snapshot of a device. Counters start at its opening.
type State struct {
	Number int // the driver's ordinal
	Info   cuda.DeviceInfo

	Sharing         cuda.Sharing
	Multiprocessors int   // that the kernel may use
	Shape           Shape // of the kernel

	Blocks     int  // of the kernel, without the watcher
	Awake      int  // blocks that poll the mailbox
	Parked     bool // the kernel does not run, for want of load
	Wakes      uint64
	WakeErr    error // why the parked kernel cannot return, as for want of memory; nil: it can
	Workers    int
	WorkersOut int // workers with an outage
	InFlight   int // chunks on the device, without lost ones
	Lost       int // abandoned chunks that the device has not finished

	// Chunks of its workers, by Placement.
	ByGPU, ByCPU, CPUSooner, CPUExplored, NoFreeSlot, KernelParked, GPULate uint64
	GPUExplored                                                             uint64 // of ByGPU, to keep estimates fresh

	Times [choice.NumEngines]choice.Means // predicted and measured, of recent chunks
	Load  float64                         // largest load of a worker, see choice.Load

	// One in Shadow chunks is repeated by the CPU; 0: none. The counters are repeated chunks with the
	// same result, with a different one, and chunks that were skipped as the tables changed.
	Shadow                                     int
	ShadowSame, ShadowDifferent, ShadowSkipped uint64

	Timeouts   uint64 // outages of workers
	Recoveries uint64 // ended outages of workers
	Failed     bool   // permanently: by any cause but CauseTimeout

	Cause  Cause   // of the outage
	Outage *Outage // of the device, else the earliest of a worker; nil: none
}

// State returns the state of the device. Any goroutine may call it, between the last NewEngine and Close.
func (d *Device) State() State {
	s := State{
		Number: d.number, Info: d.info, Sharing: d.sharing, Multiprocessors: d.multiprocessors, Shape: d.shape,
		Blocks: d.kernel.pool.blocks, Parked: d.kernel.state.parked.Load(), Wakes: d.kernel.wakes.Load(),
		Workers: len(d.engines), Outage: d.outage(), Shadow: d.options.Shadow,
	}
	if why := d.kernel.memory.refused.Load(); why != nil {
		s.WakeErr = *why
	}
	if !s.Parked {
		s.Awake = int(atomic.LoadUint32(d.kernel.mailbox.control))
	}
	if s.Outage != nil {
		s.Cause = CauseTimeout
	}
	if err := d.state.err(); err != nil {
		s.Failed, s.Cause = true, causeOf(err)
	}
	now := batch.Clock()
	for _, e := range d.engines {
		if e.Name() != "gpu" {
			s.WorkersOut++
		}
		s.InFlight, s.Lost = s.InFlight+int(e.onGPU.Load()), s.Lost+int(e.lostNow.Load())
		s.ByGPU += e.executed[ExecutedOnGPU].Load()
		s.ByCPU += e.executed[ExecutedOnCPU].Load()
		s.CPUSooner += e.executed[CPUSooner].Load()
		s.CPUExplored += e.executed[CPUExplored].Load()
		s.GPUExplored += e.explored.Load()
		s.NoFreeSlot += e.executed[NoFreeSlot].Load()
		s.KernelParked += e.executed[KernelParked].Load()
		s.GPULate += e.executed[GPULate].Load()
		if c := e.chooser; c != nil {
			for i := range s.Times {
				c.Accuracy[i].AddTo(&s.Times[i])
			}
			s.Load = max(s.Load, c.Load.Share(now))
		}
		if r := e.shadow; r != nil {
			s.ShadowSame += r.same.Load()
			s.ShadowDifferent += r.different.Load()
			s.ShadowSkipped += r.skipped.Load()
		}
		s.Timeouts += e.outage.timeouts.Load()
		s.Recoveries += e.outage.recoveries.Load()
	}
	return s
}

// Err returns the cause of the outage of the device or of an engine, nil without one.
func (d *Device) Err() error {
	if o := d.outage(); o != nil {
		return o.Why
	}
	return nil
}

// outage returns the outage of the device, else that of its tables, else the earliest of a worker, with the
// driver's error.
func (d *Device) outage() *Outage {
	o := d.state.failure.Load()
	if o == nil {
		o = d.state.stale.Load()
	}
	if o == nil {
		for _, e := range d.engines {
			if of := e.outage.current.Load(); of != nil && (o == nil || of.Since.Before(o.Since)) {
				o = of
			}
		}
	}
	if o == nil {
		return nil
	}
	if cuda.Sticky(o.Why) {
		d.destroyContext(o.Why)
		return o
	}
	// After a kernel's fault every call reports it, but the driver needs more time for that than a
	// chunk's timeout.
	cause := d.ctx.Do(func() error {
		s, err := d.ctx.NewStream(0)
		if err != nil {
			return err
		}
		return s.Close()
	})
	if cause == nil {
		return o
	}
	o = &Outage{o.Since, fmt.Errorf("%w: %w", o.Why, cause)}
	if cuda.Sticky(cause) {
		d.destroyContext(o.Why)
	}
	return o
}

// destroyContext destroys the context of a device after a sticky error, once and without waiting. After
// that, workers release the frames on the device. If the driver fails to destroy it, the device may
// still write, and the frames stay withheld. Running calls end before, as the driver crashes on
// handles of a destroyed context.
func (d *Device) destroyContext(why error) {
	d.destroyOnce.Do(func() {
		d.state.fail(why)
		go func() {
			if d.tables != nil {
				d.tables.patcher.quiesce()
			}
			if d.kernel != nil {
				d.kernel.lender.awaitOthers()
			}
			if err := d.ctx.Close(); err == nil {
				d.state.destroyed.Store(true)
			}
			close(d.destroyed)
		}()
	})
}
