package dataplane

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// Local is the way between the router and its host for packets that ports cannot exchange:
// those that tunnels carry to the host's own addresses, and the host's to tunnels.
type Local interface {
	// Deliver copies a packet for the host and reports whether it could. Any worker may
	// call it; it does not block.
	Deliver(packet []byte) bool
	// Take copies the next packet from the host and returns its length, 0 if there is none.
	// One worker calls it; it does not block.
	Take(dst []byte) int
	// FD is what poll(2) waits on for packets to take.
	FD() int
}

// How often a busy worker looks for packets from the host, and how many it takes at once.
const (
	takeEvery = 100 * time.Microsecond
	takeBurst = 64
)

// takeLocal queues packets of the host's, if it is time to look for some. They meet the
// policies like any that leave.
func (w *worker) takeLocal(now time.Duration) {
	if now-w.tookLocal < takeEvery {
		return
	}
	w.tookLocal = now
	for range takeBurst {
		if !w.errands.room(w, 1, umem.MaxMTU) {
			return
		}
		f, p := w.frame(umem.MaxMTU)
		n := w.local.Take(p)
		if n < packet.IPv4Len || p[0]>>4 == 6 && n < packet.IPv6Len {
			w.pool.Put(f.Addr)
			return
		}
		f.Port = batch.Own
		w.stats.made.Add(1)
		w.own(f, n)
	}
}

// deliver gives a packet to the host, if that would not answer by a port: in clear. What
// may be a part of ESP is no packet yet: unless it came out of a tunnel, no policy was asked.
func (w *worker) deliver(f batch.Frame, p []byte) bool {
	part := f.Port&batch.Cleared == 0 && isESPFragment(p)
	if w.local == nil || part || !w.offPorts(p) || !w.local.Deliver(p) {
		return false
	}
	if f.Port&batch.Own != 0 {
		w.stats.made.Add(-1)
	} else {
		w.stats.delivered.Add(1)
	}
	w.pool.Put(f.Addr)
	return true
}

// speaker returns the address that an error about a packet comes from. One about the host's
// own seems to come from where that was going: Linux takes none from an address of its own.
func (w *worker) speaker(f batch.Frame, p []byte) netip.Addr {
	switch ipv6 := p[0]>>4 == 6; {
	case w.local == nil || f.Port&batch.Own == 0:
		return w.errands.source(f.Ingress(), ipv6)
	case ipv6:
		return netip.AddrFrom16([16]byte(p[24:]))
	default:
		return netip.AddrFrom4([4]byte(p[16:]))
	}
}

// offPorts reports whether the route to the source of a valid packet is by no port.
func (w *worker) offPorts(p []byte) bool {
	var id fib.ID
	if p[0]>>4 == 4 {
		id = w.fib.IPv4.Lookup(binary.BigEndian.Uint32(p[12:]))
	} else {
		id = w.fib.IPv6.Lookup([16]byte(p[8:24]))
	}
	return fib.NextHop(atomic.LoadUint64(&w.fib.Words().NextHops[id])).Kind() == fib.KindNoPort
}
