package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
	"github.com/warproute/warproute/packet/icmp"
	"github.com/warproute/warproute/umem"
)

// slowPath handles exceptions: packets with a verdict to drop for which the router does more than
// count them. It sends ICMP errors (icmp.go), fragments packets that exceed an MTU (fragment.go),
// reassembles fragments of ESP (reassembly.go), delivers packets to the host (host.go) and lets Linux forward
// packets to interfaces that are not ports (exit.go).
//
// The resulting packets enter the next chunks like received packets. The queue is short, and a chunk has room for received packets besides
// (receiver.limit).
type slowPath struct {
	n      int // packets in queue
	icmp   icmpSender
	frag   fragmenter
	maxLen int // longest IP packet that a frame holds, in bytes

	reassembler  *fragment.Reassembler // nil until it is needed
	engine       ReassembledEngine     // nil if the engine does not implement it
	fragmentPort uint16                // ingress port of the latest fragment

	queue [slowPathSize]batch.Frame
}

const slowPathSize = 256

// noPort is the verdict on packets that may exit by Linux.
var noPort = batch.Drop(batch.NoPort)

// handleException handles a frame with a verdict to drop: by the exception handler of the drop reason,
// or else by counting and freeing it.
func (w *worker) handleException(f batch.Frame, r batch.Result, now time.Duration) {
	p := w.mem[f.Addr+packet.EthernetLen : uint64(f.Addr)+uint64(max(f.Len, packet.EthernetLen))]
	if r.Verdict == noPort && w.exitByLinux(f, p) {
		return
	}
	w.handlePacketException(f, p, r, now)
}

// handlePacketException is handleException for a packet that may be outside the UMEM. f is its frame,
// or that of its last fragment.
func (w *worker) handlePacketException(f batch.Frame, p []byte, r batch.Result, now time.Duration) {
	reason := r.Verdict.Reason()
	switch {
	case reason == batch.MTUExceeded && (r.RouterFragments() || mayFragment(p) || f.Origin.Has(batch.Reassembled)):
		if w.fragment(f, p, int(r.MTU())) {
			w.pool.Put(f.Addr)
			return
		}
	case reason == batch.LocalDelivery && w.deliverToHost(f, p):
		return
	case reason == batch.FragmentsMissing:
		w.reassemble(f, p, r.KnownSA(), now)
		return
	case icmpErrors[reason].send:
		w.sendICMPError(f, p, icmp.Error{Cause: icmpErrors[reason].Cause, Info: uint32(r.MTU())}, now)
	}
	w.drop(f, reason)
}

// handleExpired handles a packet that expired in the pending queue.
func (w *worker) handleExpired(f batch.Frame, reason batch.Reason) {
	w.handleException(f, batch.DropFor(reason), batch.Clock())
}

// room reports whether the slow path can queue count packets of up to size bytes.
func (s *slowPath) room(pool *umem.Pool, count, size int) bool {
	frames := pool.Len()
	if size > umem.MaxMTU {
		frames = pool.LargeLen()
	}
	return s.n+count <= slowPathSize && frames >= count
}

// allocFrame takes a frame for a packet of up to size bytes from the pool, and returns the buffer of
// the packet in it.
func (w *worker) allocFrame(size int) (f batch.Frame, buffer []byte) {
	if size > umem.MaxMTU {
		f.Addr = w.pool.TakeLarge() + umem.DataOffset
		return f, w.mem[f.Addr+packet.EthernetLen:][:umem.MaxLargeMTU]
	}
	f.Addr = w.pool.Take() + umem.DataOffset
	return f, w.mem[f.Addr+packet.EthernetLen:][:umem.MaxMTU]
}

// enqueue queues a packet of n bytes for the next chunk.
func (w *worker) enqueue(f batch.Frame, n int) {
	b := w.mem[f.Addr:]
	kind := packet.EtherTypeIPv4
	if b[packet.EthernetLen]>>4 == 6 {
		kind = packet.EtherTypeIPv6
	}
	(*packet.Ethernet)(b).SetType(kind)
	f.Len = uint16(packet.EthernetLen + n)
	w.slow.queue[w.slow.n] = f
	w.slow.n++
}

// originate enqueues a packet of n bytes from this host or router. Forwarding will decrement its TTL.
func (w *worker) originate(f batch.Frame, n int) {
	incrementTTL(w.mem[f.Addr+packet.EthernetLen:])
	w.stats.originated.Add(1)
	w.enqueue(f, n)
}

// incrementTTL increments the TTL or hop limit of a packet, up to 255.
func incrementTTL(p []byte) {
	switch {
	case p[0]>>4 == 4 && p[8] < 255:
		(*packet.IPv4)(p).IncrementTTL()
	case p[0]>>4 == 6 && p[7] < 255:
		p[7]++
	}
}

// drainTo moves queued packets to a chunk of up to limit packets.
func (s *slowPath) drainTo(c *batch.Chunk, limit int) {
	n := copy(c.In[c.N:limit], s.queue[:s.n])
	c.N += n
	s.n = copy(s.queue[:], s.queue[n:s.n])
}
