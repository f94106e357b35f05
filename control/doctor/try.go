package doctor

import (
	"strings"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/umem"
)

// Trial is the result of opening a port as the router does.
type Trial struct {
	Mode   afxdp.Mode
	Reason string // why no faster mode, from the driver
	Err    error  // why it failed
}

// quiet lists drivers that attach an XDP program without resetting the link.
var quiet = map[string]bool{"veth": true, "virtio_net": true}

// mayTry reports whether a port can be opened for a moment: it is unused, and its driver keeps
// the link up or the user permits a reset.
func (h *Host) mayTry(l *Link) bool {
	fits := l.Refusal == nil && !l.Loopback && len(l.MAC) == 6 && l.MTU <= umem.MaxLargeMTU && l.TxQueues >= l.Queues
	return h.Try != nil && len(h.Missing) == 0 && fits && l.XDP == "" && len(l.Sockets) == 0 && (h.TryAll || quiet[l.Driver])
}

// try opens and closes a port. The XDP program passes every frame to Linux.
func try(l *Link) *Trial {
	const perQueue = 64 // frames and ring entries
	large := 0
	if l.MTU > umem.MaxMTU {
		large = l.Queues
	}
	memory, err := umem.NewLarge(perQueue*l.Queues, large)
	if err != nil {
		return &Trial{Err: err}
	}
	defer memory.Close()
	set, err := afxdp.Open(afxdp.Config{
		Ports:    []afxdp.PortConfig{{Interface: l.Name}},
		Workers:  []afxdp.WorkerMemory{{Memory: memory, Pool: umem.NewPool(memory)}},
		RingSize: perQueue,
	})
	if err != nil {
		return &Trial{Err: err}
	}
	defer closeSet(set)
	return &Trial{Mode: set.Ports[0].Mode, Reason: set.Ports[0].ModeReason}
}

// closeTimeout limits the wait for the kernel, which releases sockets asynchronously.
const closeTimeout = 3 * time.Second

// closeSet closes a port and waits until the kernel has released its sockets, so that later
// checks do not find them.
func closeSet(s *afxdp.Set) {
	ifindex := s.Ports[0].Ifindex
	_ = s.Close() // leaks end with the process
	for deadline := time.Now().Add(closeTimeout); len(queuesWithSockets(ifindex)) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// mode reports the XDP mode of the port.
func mode(h *Host, l *Link) []Finding {
	t := l.Trial
	switch {
	case t == nil && (l.Refusal != nil || l.XDP != "" || len(l.Sockets) > 0):
		return ok("not tried: the port cannot be opened")
	case t == nil:
		return ok("not tried: the driver could reset the link for seconds; try with `%s doctor --try --port %s`", h.Executable, l.Name)
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
	case f.ZeroCopy && l.Truncates != nil:
		return warn("none needed: the router uses native mode", "%s, no zero-copy: %v", name, l.Truncates)
	case f.ZeroCopy:
		return ok("%s, supports zero-copy", name)
	case f.Native:
		return ok("%s, supports native XDP, no zero-copy", name)
	}
	return warn("none, or another NIC", "%s, only generic XDP, which is slower", name)
}
