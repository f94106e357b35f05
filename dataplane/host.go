package dataplane

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// HostInterface carries packets between the router and its host that do not pass a port: inner
// packets of tunnels to the host's addresses, and packets of the host to tunnels.
type HostInterface interface {
	// Deliver copies a packet to the host and reports whether there was room. All workers call it;
	// it does not block.
	Deliver(packet []byte) bool
	// Receive copies the next packet of the host to dst and returns its length, 0 for none. One
	// worker calls it; it does not block.
	Receive(dst []byte) int
	// FD is the file descriptor for poll(2).
	FD() int
}

// hostPath is a worker's side of the host interface.
type hostPath struct {
	HostInterface               // nil without one
	polled        bool          // true for one worker
	last          time.Duration // time of the last poll
}

// A busy worker polls the host interface every hostPollInterval for up to hostBurst packets.
const (
	hostPollInterval = 100 * time.Microsecond
	hostBurst        = 64
)

// receiveFromHost enqueues packets of the host. The outbound policies apply to them.
func (w *worker) receiveFromHost(now time.Duration) {
	if now-w.host.last < hostPollInterval {
		return
	}
	w.host.last = now
	for range hostBurst {
		if !w.slow.room(w.pool, 1, umem.MaxMTU) {
			return
		}
		f, p := w.allocFrame(umem.MaxMTU)
		n := w.host.Receive(p)
		if n < packet.IPv4Len || p[0]>>4 == 6 && n < packet.IPv6Len {
			w.pool.Put(f.Addr)
			return
		}
		f.Origin = batch.From(0).With(batch.Own)
		w.originate(f, n)
	}
}

// deliverToHost delivers a packet to the host, unless the host would answer through a port, in
// cleartext. It refuses a fragment of ESP from outside: no policy was applied to it.
func (w *worker) deliverToHost(f batch.Frame, p []byte) bool {
	unchecked := !f.Origin.Has(batch.InboundChecked) && isESPFragment(p)
	if w.host.HostInterface == nil || unchecked || !w.routedOffPorts(p) || !w.host.Deliver(p) {
		return false
	}
	if f.Origin.Has(batch.Own) {
		w.stats.originated.Add(-1)
	} else {
		w.stats.delivered.Add(1)
	}
	w.pool.Put(f.Addr)
	return true
}

// routedOffPorts reports whether the route to the source of a valid packet leaves by an interface
// that is not a port.
func (w *worker) routedOffPorts(p []byte) bool {
	var id fib.ID
	if p[0]>>4 == 4 {
		id = w.fib.IPv4.Lookup(binary.BigEndian.Uint32(p[12:]))
	} else {
		id = w.fib.IPv6.Lookup([16]byte(p[8:24]))
	}
	return fib.NextHop(atomic.LoadUint64(&w.fib.Words().NextHops[id])).Kind() == fib.KindNoPort
}
