// Package cpu is the engine that decides on packets with the processor alone.
//
// A chunk is worked off in blocks, small enough that the headers of a block stay
// in the first-level cache, in three passes: validate every packet and gather
// its destination; look all destinations up at once; follow the next hops and
// rewrite. A packet that is not forwarded is left as it was received. Where a port
// asks for a route back to the source, sources are looked up so, first of all.
//
// The GPU engine does the same; the two must agree in every byte and verdict.
package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// block is how many packets pass the engine together.
const block = 64

// Engine is one worker's CPU engine.
type Engine struct {
	fib       *fib.FIB
	words     fib.Words
	mem       []byte
	large     int     // where in mem large frames begin
	largeSize uint32  // how long they are
	repair    []bool  // by ingress port: senders may leave L4 checksums unfinished
	ipsec     *ipsec  // nil: nothing is protected
	datagrams *Engine // see Datagram; nil until there is one

	// The packets of a block that are still to be looked up, by family: their
	// index in the chunk, their destination, what the lookup answered. (Or their
	// index in the block, and their source, while these are verified.)
	v4 struct {
		n    int
		at   [block]int32
		addr [block]uint32
		hops [block]lookup.NextHop
	}
	v6 struct {
		n    int
		at   [block]int32
		addr [block][16]byte
		l4   [block]packet.L4
		hops [block]lookup.NextHop
	}
}

// New returns an engine over the frames in mem. repair tells, by port, whether
// L4 checksums of frames received there may be unfinished.
func New(f *fib.FIB, mem []byte, repair []bool) *Engine {
	return &Engine{fib: f, words: f.Words(), mem: mem, large: len(mem), largeSize: umem.LargeSize, repair: repair}
}

// LargeFrom tells the engine where in memory large frames begin, if there are any.
func (e *Engine) LargeFrom(at int) { e.large = at }

// Name is "cpu".
func (e *Engine) Name() string { return "cpu" }

// Done is true: Submit does all the work.
func (e *Engine) Done(*batch.Chunk) bool { return true }

// Adjacencies is how many adjacencies the forwarding base has room for.
func (e *Engine) Adjacencies() int { return len(e.words.Adjacencies) }

// Quiesced is true: no packet is ever lost.
func (e *Engine) Quiesced() bool { return true }

// Submit decides on every packet of the chunk.
func (e *Engine) Submit(c *batch.Chunk) {
	in, out := c.In[:c.N], c.Out[:c.N]
	if e.ipsec != nil {
		e.secure(in, out, nil)
		e.route(in, out, false) // secure has verified what came from outside
	} else {
		e.route(in, out, e.fib.Verifies())
	}
}

// Decide decides on packets as Submit does where no policy has anything to say of them, be
// it that there are none or that they have been asked.
func (e *Engine) Decide(in []batch.Frame, out []batch.Result) {
	clear(out)
	e.route(in, out, e.ipsec == nil && e.fib.Verifies())
}

// route decides on every packet that policies have not dropped and, with verify, that comes
// from where it may.
func (e *Engine) route(in []batch.Frame, out []batch.Result, verify bool) {
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		if verify {
			clear(out[start:end])
			e.verify(in[start:end], out[start:end])
		}
		e.validate(in, out, start, end, verify || e.ipsec != nil)
		e.fib.IPv4.LookupBatch(e.v4.hops[:], e.v4.addr[:e.v4.n])
		e.fib.IPv6.LookupBatch(e.v6.hops[:], e.v6.addr[:e.v6.n])
		e.rewrite(in, out)
	}
}

// frame returns the bytes of a received frame.
func (e *Engine) frame(f batch.Frame) []byte {
	return e.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)]
}

// validate writes the verdict of every packet that goes no further, and lists
// the others for lookup. Where that is said, some are decided and have one already.
func (e *Engine) validate(in []batch.Frame, out []batch.Result, start, end int, decided bool) {
	e.v4.n, e.v6.n = 0, 0
	for i := start; i < end; i++ {
		if decided && out[i].Verdict != 0 {
			continue
		}
		b := e.frame(in[i])
		reason := batch.TooShort
		if len(b) >= packet.EthernetLen {
			p := b[packet.EthernetLen:]
			switch (*packet.Ethernet)(b).Type() {
			case packet.EtherTypeIPv4:
				if reason = validateIPv4(p); reason == ok {
					n := e.v4.n
					e.v4.at[n], e.v4.addr[n] = int32(i), (*packet.IPv4)(p).Dst()
					e.v4.n = n + 1
					continue
				}
			case packet.EtherTypeIPv6:
				n := e.v6.n
				if reason = validateIPv6(p, &e.v6.l4[n]); reason == ok {
					e.v6.at[n], e.v6.addr[n] = int32(i), (*packet.IPv6)(p).Dst()
					e.v6.n = n + 1
					continue
				}
			default:
				reason = batch.EtherType
			}
		}
		out[i] = batch.Result{Verdict: batch.Drop(reason)}
	}
}

// rewrite gives every packet that was looked up its verdict, and the headers of
// its next link to those that are forwarded.
func (e *Engine) rewrite(in []batch.Frame, out []batch.Result) {
	for j := range e.v4.n {
		i := e.v4.at[j]
		out[i] = e.forwardIPv4(in[i], e.v4.hops[j])
	}
	for j := range e.v6.n {
		i := e.v6.at[j]
		out[i] = e.forwardIPv6(in[i], e.v6.hops[j], &e.v6.l4[j])
	}
}

// reasons of the kinds of next hop that lead nowhere.
var reasons = [...]batch.Reason{
	fib.KindNone:        batch.NoRoute,
	fib.KindForward:     batch.Unprocessed, // not asked for
	fib.KindLocal:       batch.LocalDelivery,
	fib.KindBlackhole:   batch.Blackhole,
	fib.KindUnreachable: batch.Unreachable,
	fib.KindProhibit:    batch.Prohibit,
	fib.KindNoPort:      batch.NoPort,
}

// egress follows an adjacency of a next hop to its port for an IP packet of size bytes. The
// result is a forward, of which address and length are still to be filled in, with both link
// addresses to write; a hold; or a drop, with the MTU as its length where that is why.
func (e *Engine) egress(hop fib.NextHop, adjacency uint32, size int) (r batch.Result, dst, src fib.MAC) {
	adj := fib.Adjacency(atomic.LoadUint64(&e.words.Adjacencies[adjacency]))
	number := adj.Port()
	port := fib.Port(atomic.LoadUint64(&e.words.Ports[number]))
	r = batch.Result{Addr: adjacency}
	switch {
	case port.MTU() == 0:
		r.Verdict = batch.Drop(batch.PortDown)
	case size > int(hop.Limit(port.MTU())):
		r.Len, r.Verdict = hop.Limit(port.MTU()), batch.Drop(batch.MTUExceeded)
	case !adj.Resolved():
		r.Verdict = batch.Hold
	default:
		r.Verdict = batch.Forward(number)
	}
	return r, adj.MAC(), port.MAC()
}

// bucket returns the adjacency that a flow takes in a group.
func (e *Engine) bucket(group, hash uint32) uint32 {
	return atomic.LoadUint32(&e.words.Groups[group*fib.Buckets+hash>>24])
}
