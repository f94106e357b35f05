package dataplane

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// Packets whose route leaves by an interface that is not a port (batch.NoPort) exit by Linux: the worker
// writes them to an interface on which Linux forwards, if Linux forwards on the interface of the route. Linux
// decrements the TTL, fragments, and sends ICMP errors.
//
// Linux processes a packet while it is written, on the worker's core. hostTime bounds that while the worker also has
// packets between ports, so that these are not delayed or lost for it.

// exitByLinux lists a packet that the engine dropped as NoPort for Linux. It reports false if the packet is to
// be dropped: the router created it, it is ESP of this router, no policy has admitted it, Linux does not forward it, it is in a VRF, whose table Linux would not use,
// or an answer of Linux, which quotes it, would leave in plaintext though a policy protects it: Linux answers to
// packets out of tunnels by the interface to the tunnels only.
func (w *worker) exitByLinux(f batch.Frame, p []byte) bool {
	o := f.Origin
	if w.exit.HostQueue == nil || o.Has(batch.Own) || (w.exitAnswers != nil || o.Has(batch.PolicyDone)) && !o.Has(batch.InboundChecked) || w.fib.PortVRF(o.Port()) != 0 {
		return false
	}
	exit := fib.ExitIPv4
	dst := p[16:20]
	if p[0]>>4 == 6 {
		exit, dst = fib.ExitIPv6, p[24:40]
	}
	if hop := w.hopTo(dst); hop.Kind() != fib.KindNoPort || hop.Exits()&exit == 0 {
		return false
	}
	if w.exitAnswers != nil && !w.answersByTunnel(p) && !w.exitAnswers(p) || !w.exit.add(f, p) {
		return false
	}
	if w.partialChecksums[o.Port()] {
		packet.Complete(w.exit.packets[len(w.exit.packets)-1])
	}
	return true
}

// answersByTunnel reports whether Linux sends packets to the source of a valid packet by the interface to the
// tunnels only.
func (w *worker) answersByTunnel(p []byte) bool {
	src := p[12:16]
	if p[0]>>4 == 6 {
		src = p[8:24]
	}
	hop := w.hopTo(src)
	return hop.Kind() == fib.KindNoPort && hop.Exits()&fib.ExitTunnel != 0
}

// hopTo returns the next hop of an IPv4 or IPv6 address.
func (w *worker) hopTo(addr []byte) fib.NextHop {
	var id fib.NextHopID
	if len(addr) == 4 {
		id = w.fib.IPv4.Lookup(binary.BigEndian.Uint32(addr))
	} else {
		id = w.fib.IPv6.Lookup([16]byte(addr))
	}
	return fib.NextHop(atomic.LoadUint64(&w.fib.Words().NextHops[id]))
}

// countExit counts a packet of n bytes that Linux has got.
func (w *worker) countExit(f batch.Frame, n int) {
	w.stats.delivered.Add(1)
	port := f.Origin.Port()
	if int(port) >= len(w.counters) {
		c := w.logical.get(port)
		c.exitPackets.Add(1)
		c.exitBytes.Add(uint64(n + packet.EthernetLen))
		return
	}
	c := &w.counters[port]
	c.exitPackets.Add(1)
	c.exitBytes.Add(uint64(n + packet.EthernetLen))
}

// hostTime is the time that a worker may spend on packets to the host: its idle time, and a share of its busy
// time. A worker that has transmitted nothing to ports for a while may spend all of it.
type hostTime struct {
	left       time.Duration
	share      int // percent
	last, idle time.Duration
	ports      time.Duration // time of the last transmission to ports
}

const (
	// hostTimeBurst bounds the time that is saved up, and with it the delay of packets between ports. The debt
	// after a long write is bounded, too.
	hostTimeBurst = 2 * time.Millisecond
	// hostTimeAlone is the most for the packets of a chunk without packets between ports in the last portsActive.
	hostTimeAlone = 10 * time.Millisecond
	portsActive   = 100 * time.Millisecond
)

// refill adds the time since the last call. idle is the worker's idle time since its start.
func (t *hostTime) refill(now, idle time.Duration) {
	idled := idle - t.idle
	busy := max(0, now-t.last-idled)
	t.left = min(t.left+idled+busy*time.Duration(t.share)/100, hostTimeBurst)
	if now-t.ports > portsActive {
		t.left = hostTimeAlone
	}
	t.last, t.idle = now, idle
}

func (t *hostTime) spend(d time.Duration) { t.left = min(max(t.left-d, -hostTimeBurst), hostTimeBurst) }
