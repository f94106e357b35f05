package dataplane

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
	"github.com/warproute/warproute/packet/icmp"
	"github.com/warproute/warproute/umem"
)

// errands is what a worker does besides forwarding, for packets that an engine
// dropped: it tells their sources why (ICMP errors, within limits), cuts those that are
// too large and may be cut, and reassembles those that IPsec needs whole.
//
// What comes of it are packets like any other. They go to the engine in front of the
// next chunk, and find their way by routes and policies. There is little room for
// them, so that no flood of bad packets keeps the good ones out.
type errands struct {
	queue [errandQueue]batch.Frame
	n     int

	limits      icmp.Limits // of the limiter
	limiter     *icmp.Limiter
	addresses   []atomic.Pointer[Addresses] // by port; the router's
	id          uint16                      // of the next IPv4 error
	fragmentID  uint32                      // of the next IPv6 packet that is cut
	reassembler *fragment.Reassembler       // nil until it is needed
	collected   uint16                      // port of the latest fragment
}

const errandQueue = 256

// Addresses are those of a port, by which the router speaks of packets that it
// received there. Either may be invalid.
type Addresses struct{ IPv4, IPv6 netip.Addr }

// causes are of the drops that a source is told of (RFC 1812 5.2.7.1, RFC 4443 3).
var causes = [batch.NumReasons]struct {
	icmp.Cause
	told bool
}{
	batch.TTLExpired:         {icmp.TimeExceeded, true},
	batch.NoRoute:            {icmp.NoRoute, true},
	batch.Unreachable:        {icmp.HostUnreachable, true},
	batch.Prohibit:           {icmp.Prohibited, true},
	batch.MTUExceeded:        {icmp.TooBig, true},
	batch.NeighborUnresolved: {icmp.HostUnreachable, true},
	batch.XfrmOutPolBlock:    {icmp.Prohibited, true},
}

// refuse counts a frame as dropped, does what there is to do about it, and gives it
// back to the pool.
func (w *worker) refuse(f batch.Frame, r batch.Result, now time.Duration) {
	w.refusePacket(f, w.mem[f.Addr+packet.EthernetLen:uint64(f.Addr)+uint64(max(f.Len, packet.EthernetLen))], r, now)
}

// refusePacket is refuse for a packet that need not lie in the frame that stands for it.
func (w *worker) refusePacket(f batch.Frame, p []byte, r batch.Result, now time.Duration) {
	reason := r.Verdict.Reason()
	switch {
	case reason == batch.MTUExceeded && (r.Addr == batch.MayCut || mayBeCut(p) || f.Port&batch.Merged != 0):
		if w.cut(f, p, int(r.Len)) {
			w.pool.Put(f.Addr)
			return
		}
	case reason == batch.LocalDelivery && w.deliver(f, p):
		return
	case reason == batch.FragmentsMissing:
		w.collect(f, p, r.Addr == batch.Expected, now)
		return
	case causes[reason].told:
		w.report(f, p, icmp.Error{Cause: causes[reason].Cause, Info: uint32(r.Len)}, now)
	}
	w.drop(f, reason)
}

// giveUp refuses a packet that waited for its neighbour.
func (w *worker) giveUp(f batch.Frame, reason batch.Reason) {
	w.refuse(f, batch.Result{Verdict: batch.Drop(reason)}, batch.Clock())
}

// report queues an ICMP error about a packet, if there may be one.
func (w *worker) report(f batch.Frame, p []byte, e icmp.Error, now time.Duration) {
	if e.Cause != icmp.TooBig {
		e.Info = 0
	}
	const group = false // what was sent to a group of the link is Linux's
	if icmp.Suppressed(p, e.Cause, group) || !w.errands.room(w, 1, icmp.MaxIPv6) || !w.errands.limiter.Allow(now, p, e.Cause) {
		return
	}
	to, room := w.frame(icmp.MaxIPv6)
	n := icmp.Build(room, p, e, w.speaker(f, p), w.errands.id)
	w.errands.id++
	if n == 0 {
		w.pool.Put(to.Addr)
		return
	}
	to.Port = f.Ingress() | batch.Own
	w.stats.made.Add(1)
	w.own(to, n)
}

// source returns the address that errors come from about packets of a port: the port's
// own, or that of another, which Linux would take for the way back.
func (e *errands) source(port uint16, ipv6 bool) netip.Addr {
	for i := range e.addresses {
		if a := e.addresses[(int(port)+i)%len(e.addresses)].Load(); a != nil {
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

// room reports whether there are frames for so many more errands, packets of up to size
// bytes, and places in the queue.
func (e *errands) room(w *worker, count, size int) bool {
	frames := w.pool.Len()
	if size > umem.MaxMTU {
		frames = w.pool.LargeLen()
	}
	return e.n+count <= errandQueue && frames >= count
}

// frame takes a frame from the pool, as if a packet of up to size bytes were to be received
// into it, and returns the place of the packet.
func (w *worker) frame(size int) (f batch.Frame, room []byte) {
	if size > umem.MaxMTU {
		f.Addr = w.pool.TakeLarge() + umem.DataOffset
		return f, w.mem[f.Addr+packet.EthernetLen:][:umem.MaxLargeMTU]
	}
	f.Addr = w.pool.Take() + umem.DataOffset
	return f, w.mem[f.Addr+packet.EthernetLen:][:umem.MaxMTU]
}

// own queues a packet of n bytes that this router made, in a frame of its own. Being
// forwarded takes a hop from it, which is added here, unless it has as many as there can be.
func (w *worker) own(f batch.Frame, n int) {
	returnHop(w.mem[f.Addr+packet.EthernetLen:])
	w.queue(f, n)
}

// returnHop adds a hop to a packet, up to the most that there can be.
func returnHop(p []byte) {
	const most = 255
	switch {
	case p[0]>>4 == 4 && p[8] < most:
		(*packet.IPv4)(p).IncrementTTL()
	case p[0]>>4 == 6 && p[7] < most:
		p[7]++
	}
}

// queue queues a packet of n bytes.
func (w *worker) queue(f batch.Frame, n int) {
	b := w.mem[f.Addr:]
	kind := packet.EtherTypeIPv4
	if b[packet.EthernetLen]>>4 == 6 {
		kind = packet.EtherTypeIPv6
	}
	(*packet.Ethernet)(b).SetType(kind)
	f.Len = uint16(packet.EthernetLen + n)
	w.errands.queue[w.errands.n] = f
	w.errands.n++
}

// submit lists what is queued in a chunk, as far as there is room.
func (e *errands) submit(c *batch.Chunk, limit int) {
	n := copy(c.In[c.N:limit], e.queue[:e.n])
	c.N += n
	e.n = copy(e.queue[:], e.queue[n:e.n])
}

// mayBeCut reports whether a packet that is too large is an IPv4 one that may be
// fragmented on its way.
func mayBeCut(p []byte) bool {
	return len(p) >= packet.IPv4Len && p[0]>>4 == 4 && p[6]&0x40 == 0
}

// cut queues the fragments of a packet, all or none. One that fits after all is not
// queued: the engine would say the same of it again, and for ever.
func (w *worker) cut(f batch.Frame, p []byte, mtu int) bool {
	mtu = min(mtu, w.largest) // an MTU may have grown beyond what frames hold
	s, err := w.errands.split(p, mtu)
	if err != nil || s.Count() < 2 || !w.errands.room(w, s.Count(), mtu) {
		return false
	}
	w.stats.made.Add(int64(s.Count() - 1))
	for i := range s.Count() {
		to, room := w.frame(mtu)
		to.Port = f.Port &^ batch.Merged // policies that were applied to the packet were applied to its fragments
		w.queue(to, s.Put(room, i))
	}
	return true
}

// split plans the fragments of a packet that may be cut.
func (e *errands) split(p []byte, mtu int) (fragment.Split, error) {
	if p[0]>>4 == 4 {
		return fragment.IPv4(p, mtu)
	}
	e.fragmentID++
	return fragment.IPv6(p, mtu, e.fragmentID)
}
