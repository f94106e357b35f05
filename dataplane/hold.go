package dataplane

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// Packets whose neighbour is unresolved wait in their worker's hold, untouched
// and in order, while Linux is asked for the neighbour. Whenever the forwarding
// base has changed, and every retryEvery, they are put in front of the next
// chunk and decided anew. Those that waited for holdFor are dropped.
//
// The hold is small and each destination's share of it smaller, and where it is full
// the packet that has waited longest, for shareAfter at least, makes room, so that a scan
// of an empty network can neither use up the frames nor keep out other packets
// for long. A packet that arrives, or is tried again, just when its neighbour answers can
// overtake one that waits; nothing else can.
//
// ESP for this host waits there too, as long as earlyFor, if nobody knows its security
// association: a peer may use one as soon as the key daemon has answered, which can be
// before Linux has told us of it. Such packets have a share of their own, since anybody
// can send them.
//
// A packet that was to leave in clear when it began to wait is asked of IPsec's policies
// again at every try, so that none leaves in clear that is protected by now.
const (
	holdSize   = 256
	holdFor    = 3 * time.Second
	retryEvery = 200 * time.Millisecond
	earlyFor   = 50 * time.Millisecond
	shareAfter = 100 * time.Millisecond // neighbours that are there answer within that
)

// noAdjacency is that of packets which wait for their association.
const noAdjacency = 1<<32 - 1

// held is one waiting packet.
type held struct {
	frame     batch.Frame
	adjacency uint32
	dst       netip.Addr
	until     time.Duration
}

// hold is a worker's queue of waiting packets, oldest first. The first of them
// may be in a chunk that retries them; they keep their places until it is done.
type hold struct {
	ring     [holdSize]held
	first, n int
	early    int // how many of all wait for their association
	limit    int // of n: holdSize, or half a chunk
	retrying int // how many of the first are in a chunk

	generation uint64        // of the forwarding base at the last retry
	retryAt    time.Duration // when to retry without a change

	// ask passes the need for a neighbour on to the control plane. It does not block.
	ask func(adjacency uint32, dst netip.Addr)
}

func (h *hold) at(i int) *held { return &h.ring[(h.first+i)%holdSize] }

// push adds a packet.
func (h *hold) push(e held) {
	if e.adjacency == noAdjacency {
		h.early++
	}
	h.n++
	*h.at(h.n - 1) = e
}

// pop removes the oldest packet.
func (h *hold) pop() held {
	e := *h.at(0)
	if e.adjacency == noAdjacency {
		h.early--
	}
	h.first = (h.first + 1) % holdSize
	h.n--
	return e
}

// add takes a frame into the hold and asks for its neighbour. Where there is no room
// it returns the frame that has to go, which is the caller's: that frame, or the oldest.
func (h *hold) add(mem []byte, f batch.Frame, adjacency uint32, now time.Duration) (out batch.Frame, full bool) {
	full = h.n >= h.limit
	if full && !h.sharable(now) {
		return f, true
	}
	dst := destination(mem[f.Addr : uint64(f.Addr)+uint64(f.Len)])
	share := max(1, h.limit/8) // of one destination
	for i := range h.n {
		if e := h.at(i); e.adjacency == adjacency && e.dst == dst {
			if share--; share == 0 {
				return f, true
			}
		}
	}
	if full {
		out = h.pop().frame
	}
	h.push(held{f, adjacency, dst, now + holdFor})
	h.ask(adjacency, dst)
	return out, full
}

// sharable reports whether the oldest packet has waited long enough to make room.
func (h *hold) sharable(now time.Duration) bool {
	e := h.at(0)
	return h.retrying == 0 && e.adjacency != noAdjacency && e.until-now <= holdFor-shareAfter
}

// addEarly is add for a packet that waits for its association.
func (h *hold) addEarly(f batch.Frame, now time.Duration) bool {
	if h.n >= h.limit || h.early >= max(1, h.limit/8) {
		return false
	}
	h.push(held{frame: f, adjacency: noAdjacency, until: now + earlyFor})
	h.retryAt = min(h.retryAt, now+earlyFor)
	return true
}

// due reports whether the packets should be decided anew.
func (h *hold) due(generation uint64, now time.Duration) bool {
	return h.n > 0 && h.retrying == 0 && (generation != h.generation || now >= h.retryAt)
}

// retry lists the waiting packets in an empty chunk, but for those whose time is
// up: it passes them to drop.
func (h *hold) retry(c *batch.Chunk, generation uint64, now time.Duration, drop func(batch.Frame, batch.Reason)) {
	h.generation, h.retryAt = generation, now+retryEvery
	for range h.n {
		switch e := h.pop(); {
		case now < e.until:
			c.In[c.N] = e.frame
			if e.frame.Port&batch.Cleared != 0 { // policies may have come that protect it
				c.In[c.N].Port &^= batch.Secured
			}
			c.N++
			h.push(e)
			h.retryAt = min(h.retryAt, e.until)
		case e.adjacency == noAdjacency:
			drop(e.frame, batch.XfrmInNoStates)
		default:
			drop(e.frame, batch.NeighborUnresolved)
		}
	}
	h.retrying, c.Retried = h.n, h.n
}

// retried takes note of what became of the packets in a chunk that retried them:
// those that are to wait on stay, and their neighbours are asked for again.
func (h *hold) retried(mem []byte, c *batch.Chunk) {
	added := h.n - h.retrying // meanwhile; they go behind those that stay
	for i := range h.retrying {
		e := h.pop()
		switch r := c.Out[i]; {
		case r.Verdict == early:
			h.push(e)
		case r.Verdict.Action() == batch.ActionHold:
			if e.adjacency == noAdjacency || c.In[i].Addr != e.frame.Addr { // it is another packet now, and has another reason to wait
				e.frame, e.until = c.In[i], c.Done+holdFor
				e.dst = destination(mem[e.frame.Addr : uint64(e.frame.Addr)+uint64(e.frame.Len)])
			}
			e.adjacency = r.Addr
			h.push(e)
			h.ask(e.adjacency, e.dst)
		}
	}
	for range added {
		h.push(h.pop())
	}
	h.retrying = 0
}

// forget removes the packets of a chunk that will not come back; the chunk's
// owner has dropped their frames.
func (h *hold) forget(retried int) {
	for range retried {
		h.pop()
	}
	h.retrying -= retried
}

// early is the verdict on ESP whose association nobody knows.
var early = batch.Drop(batch.XfrmInNoStates)

// destination returns the address that a valid packet goes to.
func destination(frame []byte) netip.Addr {
	p := frame[packet.EthernetLen:]
	if (*packet.Ethernet)(frame).Type() == packet.EtherTypeIPv4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], (*packet.IPv4)(p).Dst())
		return netip.AddrFrom4(a)
	}
	return netip.AddrFrom16((*packet.IPv6)(p).Dst())
}
