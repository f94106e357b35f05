package dataplane

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// A packet whose neighbor is unresolved waits in the pending queue, unmodified and in order, while
// Linux resolves the neighbor. The queue is retried at the front of the next chunk when the FIB has
// changed, and every retryInterval. A packet is dropped after pendingTimeout.
//
// The queue is short, and so is a destination's share of it: as many packets as Linux keeps for a neighbor by default
// (neigh/default/unres_qlen), and a fifth of the queue at most. When the queue is full, the oldest packet is evicted if it is
// older than evictAfter: a scan of an empty network uses up neither the frames nor the queue. A packet that arrives or is
// retried at the moment of the neighbor's answer can overtake one that waits.
//
// ESP for this host without an SA waits for saTimeout: a peer may use an SA as soon as the key daemon
// has answered, before Linux has reported the SA. Anybody can send ESP, so its share is limited, too.
//
// A cleartext packet is checked against the IPsec policies at every retry, because a policy that
// protects it may have been installed.
const (
	pendingSize    = 512
	pendingShare   = 101  // of a destination
	pendingBuckets = 1024 // of a count of destinations
	pendingTimeout = 3 * time.Second
	retryInterval  = 200 * time.Millisecond
	saTimeout      = 50 * time.Millisecond
	evictAfter     = 100 * time.Millisecond // a neighbor that is up answers earlier
)

// unknownSA is the verdict on ESP without an SA.
var unknownSA = batch.Drop(batch.XfrmInNoStates)

// pendingPacket is one waiting packet.
type pendingPacket struct {
	frame    batch.Frame
	neighbor neighbor
	buckets  buckets // of the neighbor
	deadline time.Duration
}

// neighbor is what a packet waits for: the neighbor of an adjacency, for a destination.
type neighbor struct {
	adjacency uint32
	dst       netip.Addr
}

// forSA is in place of a neighbor for packets that wait for an SA. No adjacency has its number.
var forSA = neighbor{adjacency: 1<<32 - 1}

// buckets are where a neighbor's packets are counted, twice: the smaller number is theirs, unless both buckets are another
// neighbor's, too (a count-min sketch; Cormode and Muthukrishnan, 2005).
type buckets [2]uint16

// saBuckets are those of packets that wait for an SA.
var saBuckets = buckets{pendingBuckets, pendingBuckets}

// pendingQueue is a worker's queue of waiting packets, oldest first. During a retry, the first
// packets are in a chunk and keep their places.
type pendingQueue struct {
	first, n int
	limit    int                                        // of n: pendingSize, or half of what a chunk has room for
	retrying int                                        // packets in a chunk
	places   [len(buckets{})][pendingBuckets + 1]uint16 // of n, by buckets
	seed     maphash.Seed

	changes uint64        // fib.FIB.Changes at the last retry
	retryAt time.Duration // time of the next retry without a FIB change

	// resolve asks the control plane to resolve a neighbor. It does not block.
	resolve func(adjacency uint32, dst netip.Addr)
	asked   neighbor // the last one, since the last retry

	ring [pendingSize]pendingPacket
}

func (q *pendingQueue) at(i int) *pendingPacket { return &q.ring[(q.first+i)%pendingSize] }

// push adds a packet.
func (q *pendingQueue) push(p pendingPacket) {
	for i, b := range p.buckets {
		q.places[i][b]++
	}
	q.n++
	*q.at(q.n - 1) = p
}

// pop removes the oldest packet.
func (q *pendingQueue) pop() pendingPacket {
	p := *q.at(0)
	for i, b := range p.buckets {
		q.places[i][b]--
	}
	q.first = (q.first + 1) % pendingSize
	q.n--
	return p
}

// bucketsOf returns the buckets of a neighbor. Nobody outside knows the seed.
func (q *pendingQueue) bucketsOf(n neighbor) buckets {
	dst := n.dst.As16()
	var key [20]byte
	binary.LittleEndian.PutUint32(key[copy(key[:], dst[:]):], n.adjacency)
	hash := maphash.Bytes(q.seed, key[:])
	return buckets{uint16(hash % pendingBuckets), uint16(hash >> 32 % pendingBuckets)}
}

// taken returns the number of places that packets with the same buckets have.
func (q *pendingQueue) taken(b buckets) int { return int(min(q.places[0][b[0]], q.places[1][b[1]])) }

// ask asks for a neighbor, unless it was the last one that it has asked for since the last retry.
func (q *pendingQueue) ask(n neighbor) {
	if n != q.asked {
		q.asked = n
		q.resolve(n.adjacency, n.dst)
	}
}

// addUnresolved adds a packet and asks for its neighbor. If the queue or the destination's share is
// full, it returns the frame to drop, which is the given one or the oldest.
func (q *pendingQueue) addUnresolved(mem []byte, f batch.Frame, adjacency uint32, now time.Duration) (dropped batch.Frame, full bool) {
	full = q.n >= q.limit
	if full && !q.evictable(now) {
		return f, true
	}
	to := neighbor{adjacency, destination(mem[f.Addr : uint64(f.Addr)+uint64(f.Len)])}
	in := q.bucketsOf(to)
	if q.taken(in) >= max(1, min(pendingShare, q.limit/5)) {
		return f, true
	}
	switch {
	case full:
		dropped = q.pop().frame
	case q.n == 0:
		q.asked = neighbor{}
	}
	q.push(pendingPacket{f, to, in, now + pendingTimeout})
	q.ask(to)
	return dropped, full
}

// evictable reports whether the oldest packet has waited for evictAfter.
func (q *pendingQueue) evictable(now time.Duration) bool {
	p := q.at(0)
	return q.retrying == 0 && p.neighbor != forSA && p.deadline-now <= pendingTimeout-evictAfter
}

// addUnknownSA adds an ESP packet without an SA and reports whether there was room.
func (q *pendingQueue) addUnknownSA(f batch.Frame, now time.Duration) bool {
	if q.n >= q.limit || q.taken(saBuckets) >= max(1, q.limit/8) {
		return false
	}
	q.push(pendingPacket{f, forSA, saBuckets, now + saTimeout})
	q.retryAt = min(q.retryAt, now+saTimeout)
	return true
}

// due reports whether the queue should be retried.
func (q *pendingQueue) due(changes uint64, now time.Duration) bool {
	return q.n > 0 && q.retrying == 0 && (changes != q.changes || now >= q.retryAt)
}

// retry lists the packets in an empty chunk and passes expired ones to drop.
func (q *pendingQueue) retry(c *batch.Chunk, changes uint64, now time.Duration, drop func(batch.Frame, batch.Reason)) {
	q.changes, q.retryAt = changes, now+retryInterval
	for range q.n {
		switch p := q.pop(); {
		case now < p.deadline:
			c.In[c.N] = p.frame
			if p.frame.Origin.Has(batch.InboundChecked) { // check it against the policies again
				c.In[c.N].Origin = c.In[c.N].Origin.Without(batch.PolicyDone)
			}
			c.N++
			q.push(p)
			q.retryAt = min(q.retryAt, p.deadline)
		case p.neighbor == forSA:
			drop(p.frame, batch.XfrmInNoStates)
		default:
			drop(p.frame, batch.NeighborUnresolved)
		}
	}
	q.retrying, c.Retried = q.n, q.n
}

// finishRetry removes the retried packets of a chunk, except those that still wait: their neighbors
// are asked for again.
func (q *pendingQueue) finishRetry(mem []byte, c *batch.Chunk) {
	added := q.n - q.retrying // since the retry began; they move behind the packets that stay
	q.asked = neighbor{}
	for i := range q.retrying {
		p := q.pop()
		switch r := c.Out[i]; {
		case r.Verdict == unknownSA:
			if c.In[i].Addr != p.frame.Addr { // IPsec removed the outer one of two ESP headers
				p.frame = c.In[i]
			}
			q.push(p)
		case r.Verdict.Action() == batch.ActionHold:
			to := neighbor{r.Adjacency(), p.neighbor.dst}
			if p.neighbor == forSA || c.In[i].Addr != p.frame.Addr { // IPsec replaced the packet
				p.frame, p.deadline = c.In[i], c.Finished+pendingTimeout
				to.dst = destination(mem[p.frame.Addr : uint64(p.frame.Addr)+uint64(p.frame.Len)])
			}
			if to != p.neighbor {
				p.neighbor, p.buckets = to, q.bucketsOf(to)
			}
			q.push(p)
			q.ask(to)
		}
	}
	for range added {
		q.push(q.pop())
	}
	q.retrying = 0
}

// cancelRetry removes the packets of a chunk that the engine does not finish. The caller has dropped
// their frames.
func (q *pendingQueue) cancelRetry(retried int) {
	for range retried {
		q.pop()
	}
	q.retrying -= retried
}

// destination returns the destination address of a valid packet.
func destination(frame []byte) netip.Addr {
	p := frame[packet.EthernetLen:]
	if (*packet.Ethernet)(frame).Type() == packet.EtherTypeIPv4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], (*packet.IPv4)(p).Dst())
		return netip.AddrFrom4(a)
	}
	return netip.AddrFrom16((*packet.IPv6)(p).Dst())
}
