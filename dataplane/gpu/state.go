package gpu

import (
	"fmt"
	"math/bits"

	"github.com/warproute/warproute/cuda"
)

// State is a device as of now; counts are since it was opened.
type State struct {
	Number int // as the driver counts
	Info   cuda.DeviceInfo
	Mode   Mode

	Blocks, Room int // of threads: a slot's each, and how many fit
	Workers      int
	Out          int // workers that do without the device now
	InFlight     int // chunks that it has,
	Lost         int // and that it had been given when it was late, and has not finished

	// Chunks of its workers, by what decided on them: the CPU while the device was out, as
	// they were small, or as the worker's blocks had others.
	ByGPU, ByCPU, BySize, Unplaced uint64

	// Chunks of which one in Shadow, if it is not 0, was to be repeated by the CPU: with the same
	// result, with another one, or not, as the tables changed meanwhile.
	Shadow                                     int
	ShadowSame, ShadowDifferent, ShadowSkipped uint64

	Timeouts uint64 // times that a worker's chunk was late, and the worker did without
	Returns  uint64 // and used the device again
	Failed   bool   // for good: after a fault, or with tables that have no room

	Cause  Cause   // of the outage
	Outage *Outage // the device's, or else the earliest of a worker's; nil: all use it
}

// State tells how the device does. Any goroutine may call it, when all engines have
// been made and before Close.
func (d *Device) State() State {
	s := State{
		Number: d.number, Info: d.info, Mode: d.options.Mode, Blocks: d.taken, Room: d.blocks,
		Workers: len(d.engines), Outage: d.outage(), Shadow: d.options.Shadow,
	}
	if s.Outage != nil {
		s.Cause = CauseTimeout
	}
	if err := d.health.err(); err != nil {
		s.Failed, s.Cause = true, causeOf(err)
	}
	for _, e := range d.engines {
		if e.Name() != "gpu" {
			s.Out++
		}
		inFlight, lost := e.chunks()
		s.InFlight, s.Lost = s.InFlight+inFlight, s.Lost+lost
		s.ByGPU += e.byGPU.Load()
		s.ByCPU += e.byCPU.Load()
		s.BySize += e.bySize.Load()
		s.Unplaced += e.unplaced.Load()
		if r := e.shadow; r != nil {
			s.ShadowSame += r.same.Load()
			s.ShadowDifferent += r.different.Load()
			s.ShadowSkipped += r.skipped.Load()
		}
		s.Timeouts += e.absence.begun.Load()
		s.Returns += e.absence.ended.Load()
	}
	return s
}

// chunks counts those that the device has, and those of them that were given up apart.
func (e *Engine) chunks() (inFlight, lost int) {
	given := e.lost.Load()
	begin := e.busy.Load() &^ e.joined.Load()
	return bits.OnesCount64(begin &^ given), bits.OnesCount64(begin & given)
}

// Err is why the device, or an engine on it, is out, nil while none is.
func (d *Device) Err() error {
	if o := d.outage(); o != nil {
		return o.Why
	}
	return nil
}

// outage is the device's, or else the earliest of a worker's, with what the driver
// says of it.
func (d *Device) outage() *Outage {
	o := d.health.failure.Load()
	if o == nil {
		for _, e := range d.engines {
			if of := e.absence.outage.Load(); of != nil && (o == nil || of.Since.Before(o.Since)) {
				o = of
			}
		}
	}
	if o == nil {
		return nil
	}
	if cuda.Lost(o.Why) {
		d.abandon(o.Why)
		return o
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
	if cause == nil {
		return o
	}
	o = &Outage{o.Since, fmt.Errorf("%w: %w", o.Why, cause)}
	if cuda.Lost(cause) {
		d.abandon(o.Why)
	}
	return o
}

// abandon destroys the context of a device that a kernel's fault has made unusable, once
// and without waiting. When the driver confirms that, workers take back the frames that the
// device had. If the driver refuses, it may be unable to stop the device's writes, and the
// frames stay withheld. The device is out of use before that, and running calls end first: the
// driver crashes on handles of a destroyed context.
func (d *Device) abandon(why error) {
	d.abandoned.Do(func() {
		d.health.fail(why)
		go func() {
			if d.tables != nil {
				d.tables.patcher.quiesce()
			}
			if err := d.ctx.Close(); err == nil {
				d.health.destroyed.Store(true)
			}
			close(d.destroyed)
		}()
	})
}
