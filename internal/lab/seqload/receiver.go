package seqload

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/warproute/warproute/internal/lab"
)

// Receiver records the packets of a Sender that arrive at a link. Other packets pass to Linux.
type Receiver struct {
	objects struct {
		Record    *ebpf.Program  `ebpf:"record"`
		Runs      *ebpf.Map      `ebpf:"runs"`
		Core      *ebpf.Variable `ebpf:"core"`
		Counts    *ebpf.Variable `ebpf:"counts"`
		Misrouted *ebpf.Variable `ebpf:"misrouted"`
	}
	link link.Link
}

// counts are a receiver's counters of a flow.
type counts struct{ Packets, Runs, Next uint32 }

// Run is consecutive packets of a flow, from sequence number First to Next-1, and the arrival times
// of the first and the last, by the monotonic clock.
type Run struct {
	First, Next  uint32
	Began, Ended time.Duration
}

// Arrivals are the packets of a flow at a receiver.
type Arrivals struct {
	Packets   int
	Runs      []Run // in order of arrival; nil after too many interruptions
	Misrouted int   // packets of any flow for another MAC address
}

// NewReceiver receives at a link on a core. peer is the other end of the link.
func NewReceiver(at, peer lab.End, core int) (*Receiver, error) {
	r := &Receiver{}
	if err := r.start(at, peer, core); err != nil {
		return nil, errors.Join(fmt.Errorf("receive at %s: %w", at.Name, err), r.Close())
	}
	return r, nil
}

func (r *Receiver) start(at, peer lab.End, core int) error {
	l, err := at.Namespace.Link(at.Name)
	if err != nil {
		return err
	}
	spec, err := loadSeqload()
	if err != nil {
		return err
	}
	if err := spec.Variables["station"].Set([6]byte(l.Attrs().HardwareAddr)); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return err
	}
	if err := at.Namespace.Do(func() (err error) {
		r.link, err = link.AttachXDP(link.XDPOptions{Program: r.objects.Record, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
		return err
	}); err != nil {
		return err
	}
	return pinSoftirq(at, peer, core, receivePeriod, func() (int, error) { return lastCore(r.objects.Core) })
}

// Flow returns the packets of a flow that have arrived.
func (r *Receiver) Flow(flow int) (a Arrivals, err error) {
	var all [MaxFlows]counts
	var misrouted uint32
	if err := errors.Join(r.objects.Counts.Get(&all), r.objects.Misrouted.Get(&misrouted)); err != nil {
		return a, fmt.Errorf("read arrivals: %w", err)
	}
	c := all[flow]
	a.Packets, a.Misrouted = int(c.Packets), int(misrouted)
	if c.Runs > maxRuns {
		return a, nil
	}
	a.Runs = make([]Run, c.Runs)
	for i := range a.Runs {
		if err := r.objects.Runs.Lookup(uint32(flow*maxRuns+i), &a.Runs[i]); err != nil {
			return a, fmt.Errorf("read run %d of flow %d: %w", i, flow, err)
		}
	}
	return a, nil
}

// Reset clears the records. Nothing may arrive at the same time.
func (r *Receiver) Reset() error {
	return errors.Join(r.objects.Counts.Set([MaxFlows]counts{}), r.objects.Misrouted.Set(uint32(0)))
}

// Close stops receiving.
func (r *Receiver) Close() error {
	var errs []error
	if r.link != nil {
		errs = append(errs, r.link.Close())
	}
	if r.objects.Record != nil {
		errs = append(errs, r.objects.Record.Close(), r.objects.Runs.Close())
	}
	return errors.Join(errs...)
}
