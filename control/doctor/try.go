package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/umem"
)

// Trial is the result of opening a port as the router does.
type Trial struct {
	Mode       afxdp.Mode
	Queues     int    // with a socket
	Reason     string // why no faster mode, from the driver
	TagsUnread string // why stripped VLAN tags are not read, "" if they are
	Err        error  // why it failed
}

// quiet lists drivers that attach an XDP program without resetting the link.
var quiet = map[string]bool{"veth": true, "virtio_net": true}

// mayTry reports whether a port can be opened for a moment: it is unused, and its driver keeps
// the link up or the user permits a reset.
func (h *Host) mayTry(l *Link) bool {
	return h.Try != nil && len(h.Missing) == 0 && l.free() && (h.TryAll || quiet[l.Driver])
}

// free reports whether a port is unused, and has nothing that keeps the router from opening it.
func (l *Link) free() bool {
	return l.Refusal == nil && !l.Loopback && len(l.MAC) == 6 && l.MTU <= umem.MaxLargeMTU && l.TxQueues >= l.Queues && l.XDP == "" && len(l.Sockets) == 0
}

// try opens and closes ports together, as the router does, because one can decide the mode of all. The XDP
// programs pass every frame to Linux. If the ports do not open together, it tries each alone, so that only
// those with an error of their own have it.
func try(links []*Link, workers int) {
	err := tryTogether(links, workers)
	if err == nil {
		return
	}
	all := true
	for _, l := range links {
		failure := err
		if len(links) > 1 {
			failure = tryTogether([]*Link{l}, min(workers, l.Queues))
		}
		if failure != nil {
			l.Trial, all = &Trial{Err: failure}, false
		}
	}
	if all {
		for _, l := range links {
			l.Trial = &Trial{Err: err}
		}
	}
}

func tryTogether(links []*Link, workers int) error {
	const perQueue = 64 // frames and ring entries
	cfg := afxdp.Config{RingSize: perQueue}
	queues, jumbo := 0, false
	for _, l := range links {
		cfg.Ports = append(cfg.Ports, afxdp.PortConfig{Interface: l.Name, Member: l.Bond != ""})
		queues, jumbo = queues+max(l.Queues, l.XDPQueues), jumbo || l.MTU > umem.MaxMTU
	}
	for range max(1, workers) {
		large := 0
		if jumbo {
			large = queues
		}
		memory, err := umem.NewLarge(perQueue*queues, large)
		if err != nil {
			return err
		}
		defer memory.Close()
		cfg.Workers = append(cfg.Workers, afxdp.WorkerMemory{Memory: memory, Pool: umem.NewPool(memory)})
	}
	set, err := afxdp.Open(cfg)
	if err != nil {
		return err
	}
	defer closeSet(set)
	for i, p := range set.Ports {
		trial := &Trial{Mode: p.Mode, Reason: p.ModeReason, TagsUnread: p.TagsUnread()}
		for w := range cfg.Workers {
			trial.Queues += len(p.Queues(w))
		}
		links[i].Trial = trial
	}
	return nil
}

// closeTimeout limits the wait for the kernel, which releases sockets asynchronously.
const closeTimeout = 3 * time.Second

// closeSet closes ports and waits until the kernel has released their sockets, so that later
// checks do not find them.
func closeSet(s *afxdp.Set) {
	_ = s.Close() // leaks end with the process
	deadline := time.Now().Add(closeTimeout)
	for _, p := range s.Ports {
		for len(queuesWithSockets(p.Ifindex)) > 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

// mode reports the XDP mode of the port.
func mode(h *Host, l *Link) []Finding {
	found := modeFinding(h, l)
	found[0].Predicted = l.Predicted
	return found
}

func modeFinding(h *Host, l *Link) []Finding {
	t, p := l.Trial, l.Predicted
	switch {
	case t == nil && !l.free():
		return ok("not tried: the port cannot be opened")
	case t == nil && p != nil && p.Mode == afxdp.Generic.String():
		return warn("fix the cause: native XDP is faster", "generic expected: %s; not tried", p.Reason)
	case t == nil:
		expected := ""
		if p != nil {
			expected = p.Mode + " expected, "
			if p.Reason != "" {
				expected = fmt.Sprintf("%s expected (%s), ", p.Mode, p.Reason)
			}
		}
		if len(h.Missing) > 0 {
			return ok("%snot tried: capabilities are missing; run it with sudo", expected)
		}
		return ok("%snot tried: the driver could reset the link for seconds; try with `%s doctor --try --port %s`", expected, h.Executable, l.Name)
	case t.Err != nil:
		return fail("fix the cause in the error, or set mode: generic", "open failed: %s", strings.ReplaceAll(t.Err.Error(), "\n", "; "))
	case t.Mode == afxdp.ZeroCopy:
		return ok("zero-copy, tried")
	case t.Mode == afxdp.Native:
		return ok("native, tried; not zero-copy: %s", t.Reason)
	}
	return warn("fix the cause: native XDP is faster", "generic, tried; not native: %s", t.Reason)
}

// driver reports the XDP support that the driver advertises.
func driver(_ *Host, l *Link) []Finding {
	name := l.Driver
	if name == "" {
		name = "unknown"
	}
	switch f := l.Features; {
	case !f.Known:
		return ok("%s; XDP modes unknown (kernel before 6.3): the router tries them", name)
	case f.ZeroCopy && l.NoZeroCopy != nil:
		return warn("none needed: the router uses native mode", "%s, no zero-copy: %v", name, l.NoZeroCopy)
	case f.ZeroCopy:
		return ok("%s, supports zero-copy", name)
	case f.Native:
		return ok("%s, supports native XDP, no zero-copy", name)
	}
	return warn("none, or another NIC", "%s, only generic XDP, which is slower", name)
}
