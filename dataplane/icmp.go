package dataplane

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet/icmp"
)

// icmpErrors are the ICMP errors by drop reason (RFC 1812 section 5.2.7.1, RFC 4443 section 3).
var icmpErrors = [batch.NumReasons]struct {
	icmp.Cause
	send bool
}{
	batch.TTLExpired:         {icmp.TimeExceeded, true},
	batch.NoRoute:            {icmp.NoRoute, true},
	batch.Unreachable:        {icmp.HostUnreachable, true},
	batch.Prohibit:           {icmp.Prohibited, true},
	batch.MTUExceeded:        {icmp.TooBig, true},
	batch.NeighborUnresolved: {icmp.HostUnreachable, true},
	batch.XfrmOutPolBlock:    {icmp.Prohibited, true},
	batch.XfrmOutNoPols:      {icmp.HostUnreachable, true},
}

// Addresses are the source addresses of ICMP errors about packets that a port received. Either may be
// invalid.
type Addresses struct{ IPv4, IPv6 netip.Addr }

// icmpSender is the state of the ICMP errors that a worker sends.
type icmpSender struct {
	limits    icmp.Limits // of the limiter
	limiter   *icmp.Limiter
	addresses []atomic.Pointer[Addresses] // by port, shared by all workers
	id        uint16                      // IPv4 identification of the next error
}

// sendICMPError originates an ICMP error about a packet, unless a rule or the limiter forbids it.
func (w *worker) sendICMPError(f batch.Frame, p []byte, e icmp.Error, now time.Duration) {
	if e.Cause != icmp.TooBig {
		e.Info = 0
	}
	const linkMulticast = false // frames to link-layer groups go to Linux
	s := &w.slow.icmp
	if icmp.Suppressed(p, e.Cause, linkMulticast) || !w.slow.room(w.pool, 1, icmp.MaxIPv6) || !s.limiter.Allow(now, w.fib.PortVRF(f.Origin.Port()), p, e.Cause) {
		return
	}
	to, buffer := w.allocFrame(icmp.MaxIPv6)
	n := icmp.Build(buffer, p, e, w.icmpSource(f, p), s.id)
	s.id++
	if n == 0 {
		w.pool.Put(to.Addr)
		return
	}
	to.Origin = batch.From(f.Origin.Port()).With(batch.Own)
	w.originate(to, n)
}

// icmpSource selects the source address of an ICMP error about a packet. An error for the host itself
// comes from the packet's destination, because Linux drops packets from its own addresses.
func (w *worker) icmpSource(f batch.Frame, p []byte) netip.Addr {
	switch ipv6 := p[0]>>4 == 6; {
	case w.host.HostQueue == nil || !f.Origin.Has(batch.Own):
		return w.slow.icmp.portAddress(w.fib, f.Origin.Port(), ipv6)
	case ipv6:
		return netip.AddrFrom16([16]byte(p[24:]))
	default:
		return netip.AddrFrom4([4]byte(p[16:]))
	}
}

// portAddress returns the address of the ingress port, or of the next port in its VRF that has one.
func (s *icmpSender) portAddress(f *fib.FIB, port uint16, ipv6 bool) netip.Addr {
	for i := range s.addresses {
		number := (int(port) + i) % len(s.addresses)
		if a := s.addresses[number].Load(); a != nil && f.PortVRF(uint16(number)) == f.PortVRF(port) {
			if !ipv6 && a.IPv4.IsValid() {
				return a.IPv4
			}
			if ipv6 && a.IPv6.IsValid() {
				return a.IPv6
			}
		}
	}
	if ipv6 {
		return netip.Addr{}
	}
	return icmp.Dummy
}
