package seqload

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/warproute/warproute/bench/xdpgen"
	"github.com/warproute/warproute/internal/lab"
)

// ticker runs the program emit periodically in softirqs of a core. It records stalls.
type ticker struct {
	objects struct {
		Emit    *ebpf.Program  `ebpf:"emit"`
		Stalls  *ebpf.Map      `ebpf:"stalls"`
		Stalled *ebpf.Variable `ebpf:"stalled"`
		Core    *ebpf.Variable `ebpf:"core"`
		Last    *ebpf.Variable `ebpf:"last"`
		Rate    *ebpf.Variable `ebpf:"rate"`
		Sent    *ebpf.Variable `ebpf:"sent"`
	}
	closers []func() error
}

// start adds the veth pair tick0, tick1 to a namespace, sets the variables of the program, and
// starts it.
func (k *ticker) start(ns *lab.Namespace, core int, period time.Duration, variables map[string]any) error {
	at, peer := lab.End{Namespace: ns, Name: "tick1"}, lab.End{Namespace: ns, Name: "tick0"}
	if err := lab.Veth(peer, at, lab.VethOptions{}); err != nil {
		return err
	}
	tick1, err1 := ns.Link(at.Name)
	tick0, err2 := ns.Link(peer.Name)
	spec, err3 := loadSeqload()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	variables["back"] = uint32(tick0.Attrs().Index)
	for name, value := range variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if err := spec.LoadAndAssign(&k.objects, nil); err != nil {
		return err
	}
	k.closers = append(k.closers, k.objects.Emit.Close, k.objects.Stalls.Close)
	if err := ns.Do(func() error {
		napi, err := xdpgen.AttachPass(tick1.Attrs().Index) // under XDP a veth receives by NAPI
		if err != nil {
			return err
		}
		k.closers = append(k.closers, napi.Close)
		l, err := link.AttachTCX(link.TCXOptions{Interface: tick1.Attrs().Index, Program: k.objects.Emit, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attach the sending program, which needs Linux 6.6: %w", err)
		}
		k.closers = append(k.closers, l.Close)
		return nil
	}); err != nil {
		return err
	}
	return pinSoftirq(at, peer, core, period, k.core)
}

func (k *ticker) core() (int, error) { return lastCore(k.objects.Core) }

// Stall is a time without softirqs on a core, by the monotonic clock. The usual cause is the host
// of a virtual machine.
type Stall struct{ From, To time.Duration }

// Stalls returns the stalls of the core that were longer than 300 µs, the first few thousand.
func (k *ticker) Stalls() ([]Stall, error) {
	var n uint32
	if err := k.objects.Stalled.Get(&n); err != nil {
		return nil, fmt.Errorf("read number of stalls: %w", err)
	}
	stalls := make([]Stall, min(n, maxStalls))
	for i := range stalls {
		if err := k.objects.Stalls.Lookup(uint32(i), &stalls[i]); err != nil {
			return nil, fmt.Errorf("read stalls: %w", err)
		}
	}
	return stalls, nil
}

// Close stops the program. The links end with the namespace.
func (k *ticker) Close() error {
	var errs []error
	for _, c := range slices.Backward(k.closers) {
		errs = append(errs, c())
	}
	k.closers = nil
	return errors.Join(errs...)
}

// Monitor records stalls of a core.
type Monitor struct {
	ticker
	ns *lab.Namespace
}

// NewMonitor monitors a core.
func NewMonitor(core int) (*Monitor, error) {
	ns, err := lab.New("monitor")
	if err != nil {
		return nil, err
	}
	m := &Monitor{ns: ns}
	if err := m.start(ns, core, monitorPeriod, map[string]any{}); err != nil {
		return nil, errors.Join(fmt.Errorf("monitor core %d: %w", core, err), m.Close())
	}
	return m, nil
}

// Close stops the monitor.
func (m *Monitor) Close() error { return errors.Join(m.ticker.Close(), m.ns.Close()) }
