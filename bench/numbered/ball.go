package numbered

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/warproute/warproute/bench/live"
	"github.com/warproute/warproute/internal/lab"
)

// The links that a ball is thrown between.
const (
	thrower = "ball0"
	catcher = "ball1"
)

// ball is a frame that meets emit every tick, in a softirq of a core.
type ball struct {
	objects ballObjects
	closers []func() error
}

type ballObjects struct {
	Emit    *ebpf.Program  `ebpf:"emit"`
	Stalls  *ebpf.Map      `ebpf:"stalls"`
	Stalled *ebpf.Variable `ebpf:"stalled"`
	Core    *ebpf.Variable `ebpf:"core"`
	Last    *ebpf.Variable `ebpf:"last"`
	Rate    *ebpf.Variable `ebpf:"rate"`
	Sent    *ebpf.Variable `ebpf:"sent"`
}

// start throws a ball in a namespace, which gets its links. The program gets values.
func (b *ball) start(ns *lab.Namespace, core int, tick time.Duration, values map[string]any) error {
	at, peer := lab.End{Namespace: ns, Name: catcher}, lab.End{Namespace: ns, Name: thrower}
	if err := lab.Veth(peer, at, lab.VethOptions{}); err != nil {
		return err
	}
	caught, err1 := ns.Link(catcher)
	thrown, err2 := ns.Link(thrower)
	spec, err3 := loadNumbered()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	values["back"] = uint32(thrown.Attrs().Index)
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if err := spec.LoadAndAssign(&b.objects, nil); err != nil {
		return err
	}
	b.closers = append(b.closers, b.objects.Emit.Close, b.objects.Stalls.Close)
	if err := ns.Do(func() error {
		napi, err := live.AttachPass(caught.Attrs().Index) // a veth has it under XDP
		if err != nil {
			return err
		}
		b.closers = append(b.closers, napi.Close)
		l, err := link.AttachTCX(link.TCXOptions{Interface: caught.Attrs().Index, Program: b.objects.Emit, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attach the sending program, which needs Linux 6.6: %w", err)
		}
		b.closers = append(b.closers, l.Close)
		return nil
	}); err != nil {
		return err
	}
	return settle(at, peer, core, tick, b.core)
}

func (b *ball) core() (int, error) { return readCore(b.objects.Core) }

// readCore is where a program ran last; -1: nowhere yet.
func readCore(v *ebpf.Variable) (int, error) {
	var core uint32
	err := v.Get(&core)
	return int(int32(core)), err
}

// Stall is a time, by the monotonic clock, in which a core served no soft interrupts:
// the host of a virtual machine had something else to do, as a rule.
type Stall struct{ From, To time.Duration }

// Stalls are those of the core so far that took longer than 300 µs, at most some
// thousand.
func (b *ball) Stalls() ([]Stall, error) {
	var n uint32
	if err := b.objects.Stalled.Get(&n); err != nil {
		return nil, fmt.Errorf("read how often a core stalled: %w", err)
	}
	stalls := make([]Stall, min(n, maxStalls))
	for i := range stalls {
		if err := b.objects.Stalls.Lookup(uint32(i), &stalls[i]); err != nil {
			return nil, fmt.Errorf("read when a core stalled: %w", err)
		}
	}
	return stalls, nil
}

// Close ends the work. The links go with the namespace.
func (b *ball) Close() error {
	var errs []error
	for _, c := range slices.Backward(b.closers) {
		errs = append(errs, c())
	}
	b.closers = nil
	return errors.Join(errs...)
}
