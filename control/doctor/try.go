package doctor

import (
	"strings"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/umem"
)

// Trial is the outcome of opening a port as a router would, alone.
type Trial struct {
	Mode   afxdp.Mode
	Reason string // why no faster mode, as the driver says it
	Err    error  // why not at all
}

// quiet are the drivers that attach an XDP program without resetting the link.
var quiet = map[string]bool{"veth": true, "virtio_net": true}

// mayTry reports whether a port may be opened for a moment: nobody uses it, and its driver
// keeps the link up or the user permits a reset.
func (h *Host) mayTry(l *Link) bool {
	fits := l.Refusal == nil && !l.Loopback && len(l.MAC) == 6 && l.MTU <= umem.MaxLargeMTU && l.TxQueues >= l.Queues
	return h.Try != nil && len(h.Missing) == 0 && fits && l.XDP == "" && len(l.Sockets) == 0 && (h.TryAll || quiet[l.Driver])
}

// try opens a port and closes it again. The XDP program leaves every frame to Linux.
func try(l *Link) *Trial {
	const perQueue = 64 // frames, and entries of a ring
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

// closeTimeout bounds the wait for the kernel, which takes sockets down some time after their
// close.
const closeTimeout = 3 * time.Second

// closeSet closes a port and waits until the kernel shows no socket on it any more, so that
// whoever looks next does not take them for another process's.
func closeSet(s *afxdp.Set) {
	ifindex := s.Ports[0].Ifindex
	_ = s.Close() // what stays open ends with the process
	for deadline := time.Now().Add(closeTimeout); len(queuesWithSockets(ifindex)) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// mode says which XDP mode the port gets.
func mode(h *Host, l *Link) []Finding {
	t := l.Trial
	switch {
	case t == nil && (l.Refusal != nil || l.XDP != "" || len(l.Sockets) > 0):
		return ok("not tried, as the port cannot be opened now")
	case t == nil:
		return ok("not tried: some drivers reset the link for seconds; `%s doctor --try --port %s` tries it", h.Executable, l.Name)
	case t.Err != nil:
		return fail("remove what stands against it, as far as the error names it, or take mode generic", "it cannot be opened: %s", strings.ReplaceAll(t.Err.Error(), "\n", "; "))
	case t.Mode == afxdp.ZeroCopy:
		return ok("zero-copy, tried")
	case t.Mode == afxdp.Native:
		return ok("native, tried; not zero-copy: %s", t.Reason)
	}
	return warn("native XDP is faster: remove what stands against it", "generic, tried; not native: %s", t.Reason)
}

// driver says what the driver promises.
func driver(_ *Host, l *Link) []Finding {
	name := l.Driver
	if name == "" {
		name = "unknown"
	}
	switch f := l.Features; {
	case !f.Known:
		return ok("%s; this kernel (before 6.3) does not tell its XDP modes: the router tries them", name)
	case f.ZeroCopy && l.Cuts != nil:
		return warn("nothing: the router takes native mode", "%s, no zero-copy: %v", name, l.Cuts)
	case f.ZeroCopy:
		return ok("%s, says that it has zero-copy", name)
	case f.Native:
		return ok("%s, says that it has native XDP, no zero-copy", name)
	}
	return warn("nothing, or another NIC", "%s, generic XDP alone, which is slower", name)
}
