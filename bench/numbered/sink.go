package numbered

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/warproute/warproute/internal/lab"
)

// Sink takes what a source sent and what arrives at a link. All else is Linux's.
type Sink struct {
	objects sinkObjects
	link    link.Link
}

type sinkObjects struct {
	Note    *ebpf.Program  `ebpf:"note"`
	Runs    *ebpf.Map      `ebpf:"runs"`
	Core    *ebpf.Variable `ebpf:"core"`
	Tallies *ebpf.Variable `ebpf:"tallies"`
	Strays  *ebpf.Variable `ebpf:"strays"`
}

// tally is what a sink counts of a flow.
type tally struct{ Packets, Runs, Next uint32 }

// Run is consecutive packets of a flow, from number First to before Next, and when
// the first and the last of them came, by the monotonic clock.
type Run struct {
	First, Next  uint32
	Began, Ended time.Duration
}

// Arrivals are those of a flow at a sink.
type Arrivals struct {
	Packets int
	// Runs are the packets in the order in which they came; none if a flow was
	// interrupted more than some thousand times.
	Runs []Run
	// Strays are packets, of any flow, that were addressed to another station.
	Strays int
}

// NewSink puts a sink at a link, whose other end is peer. It works on a core.
func NewSink(at, peer lab.End, core int) (*Sink, error) {
	s := &Sink{}
	if err := s.start(at, peer, core); err != nil {
		return nil, errors.Join(fmt.Errorf("note numbered packets at %s: %w", at.Name, err), s.Close())
	}
	return s, nil
}

func (s *Sink) start(at, peer lab.End, core int) error {
	l, err := at.Namespace.Link(at.Name)
	if err != nil {
		return err
	}
	spec, err := loadNumbered()
	if err != nil {
		return err
	}
	if err := spec.Variables["station"].Set([6]byte(l.Attrs().HardwareAddr)); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return err
	}
	if err := at.Namespace.Do(func() (err error) {
		s.link, err = link.AttachXDP(link.XDPOptions{Program: s.objects.Note, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
		return err
	}); err != nil {
		return err
	}
	return settle(at, peer, core, sinkTick, func() (int, error) { return readCore(s.objects.Core) })
}

// Flow is what has come of a flow so far.
func (s *Sink) Flow(flow int) (a Arrivals, err error) {
	var all [MaxFlows]tally
	var strays uint32
	if err := errors.Join(s.objects.Tallies.Get(&all), s.objects.Strays.Get(&strays)); err != nil {
		return a, fmt.Errorf("read what arrived: %w", err)
	}
	t := all[flow]
	a.Packets, a.Strays = int(t.Packets), int(strays)
	if t.Runs > maxRuns {
		return a, nil
	}
	a.Runs = make([]Run, t.Runs)
	for i := range a.Runs {
		if err := s.objects.Runs.Lookup(uint32(flow*maxRuns+i), &a.Runs[i]); err != nil {
			return a, fmt.Errorf("read run %d of flow %d: %w", i, flow, err)
		}
	}
	return a, nil
}

// Restart has the sink forget all. Nothing must arrive meanwhile.
func (s *Sink) Restart() error {
	return errors.Join(s.objects.Tallies.Set([MaxFlows]tally{}), s.objects.Strays.Set(uint32(0)))
}

// Close lets Linux have everything again.
func (s *Sink) Close() error {
	var errs []error
	if s.link != nil {
		errs = append(errs, s.link.Close())
	}
	if s.objects.Note != nil {
		errs = append(errs, s.objects.Note.Close(), s.objects.Runs.Close())
	}
	return errors.Join(errs...)
}
