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
// The hold is small and each destination's share of it smaller, so that a scan
// of an empty network can neither use up the frames nor keep out other packets
// for long. A packet that arrives just when its neighbour answers can overtake
// one that waits; nothing else can.
const (
	holdSize   = 256
	holdPerDst = 32
	holdFor    = 3 * time.Second
	retryEvery = 200 * time.Millisecond
)

// held is one waiting packet.
type held struct {
	frame     batch.Frame
	adjacency uint32
	dst       netip.Addr
	until     time.Duration
}

// hold is a worker's queue of waiting packets, oldest first.
type hold struct {
	ring     [holdSize]held
	first, n int
	limit    int // of n: holdSize or the size of a chunk

	retrying   [holdSize]held // what the chunk that retries was made of
	inRetry    int            // how many; their room in the ring is kept for them
	generation uint64         // of the forwarding base at the last retry
	retryAt    time.Duration  // when to retry without a change

	// ask passes the need for a neighbour on to the control plane. It does not block.
	ask func(adjacency uint32, dst netip.Addr)
}

func (h *hold) at(i int) *held { return &h.ring[(h.first+i)%holdSize] }

func (h *hold) take() held {
	e := *h.at(0)
	h.first = (h.first + 1) % holdSize
	h.n--
	return e
}

// add takes a frame into the hold and asks for its neighbour. Where there is no
// room it reports false, and the frame stays the caller's.
func (h *hold) add(mem []byte, f batch.Frame, adjacency uint32, now time.Duration) bool {
	if h.n+h.inRetry >= h.limit {
		return false
	}
	dst := destination(mem[f.Addr : uint64(f.Addr)+uint64(f.Len)])
	same := 0
	for i := range h.n {
		if e := h.at(i); e.adjacency == adjacency && e.dst == dst {
			same++
		}
	}
	if same >= holdPerDst {
		return false
	}
	*h.at(h.n) = held{f, adjacency, dst, now + holdFor}
	h.n++
	h.ask(adjacency, dst)
	return true
}

// due reports whether the packets should be decided anew.
func (h *hold) due(generation uint64, now time.Duration) bool {
	return h.n > 0 && h.inRetry == 0 && (generation != h.generation || now >= h.retryAt)
}

// retry moves the waiting packets into an empty chunk, and those whose time is
// up out to drop.
func (h *hold) retry(c *batch.Chunk, generation uint64, now time.Duration, drop func(batch.Frame, batch.Reason)) {
	h.generation, h.retryAt = generation, now+retryEvery
	for h.n > 0 {
		e := h.take()
		if now >= e.until {
			drop(e.frame, batch.NeighborUnresolved)
			continue
		}
		c.In[h.inRetry] = e.frame
		h.retrying[h.inRetry] = e
		h.inRetry++
	}
	c.N, c.Retried = h.inRetry, h.inRetry
}

// putBack takes those retried packets of a finished chunk back, in front of all
// others, that are still to wait, and asks for their neighbours again.
func (h *hold) putBack(c *batch.Chunk) {
	for i := c.Retried - 1; i >= 0; i-- {
		if r := c.Out[i]; r.Verdict.Action() == batch.ActionHold {
			h.first = (h.first + holdSize - 1) % holdSize
			h.n++
			*h.at(0) = h.retrying[i]
			h.at(0).adjacency = r.Addr
			h.ask(r.Addr, h.at(0).dst)
		}
	}
	h.inRetry = 0
}

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
