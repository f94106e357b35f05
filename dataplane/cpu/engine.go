// Package cpu is the engine that decides on packets with the processor alone.
//
// A chunk passes through the engine block by block: validate every packet and gather its destination; look
// all destinations up at once; follow the next hops and rewrite the link headers. A packet that is
// not forwarded is left as it was received. Packets of a gateway pass package esp first.
//
// The GPU engine must agree with this one in every byte and verdict.
package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// block is the number of packets that pass the engine together. In larger blocks more of the
// lookups' cache misses overlap; the headers stay in the second-level cache.
const block = inspect.Block

// Engine is one worker's CPU engine.
type Engine struct {
	fib              *fib.FIB
	words            fib.Words
	tags             *fib.TagWords
	frames           inspect.Frames
	partialChecksums []bool     // by ingress port: frames may have partial L4 checksums
	esp              *esp.Stage // nil: no gateway
	sources          inspect.ReversePath

	datagrams *esp.Datagrams // see ProcessReassembled; nil before the first
	large     *Engine        // decides on packets in the buffer of datagrams

	// Packets of the block to look up, by family: index in the chunk, destination, VRF, and the
	// lookup's result. Those in VRFs are behind the others, from the end down.
	v4 struct {
		inspect.Places
		at   [block]int32
		addr [block]uint32
		hops [block]lookup.NextHopID
	}
	v6 struct {
		inspect.Places
		at   [block]int32
		addr [block][16]byte
		l4   [block]packet.L4
		hops [block]lookup.NextHopID
	}
	vrf4, vrf6 [block]uint16 // of the packets in VRFs
}

// New returns an engine over the frames in mem. partialChecksums is by ingress port: true if received
// frames may have partial L4 checksums.
func New(f *fib.FIB, mem []byte, partialChecksums []bool) *Engine {
	words := f.Words()
	return &Engine{
		fib: f, words: words, tags: words.Tags(), frames: inspect.Frames{Mem: mem, Large: len(mem), LargeSize: umem.LargeSize},
		partialChecksums: partialChecksums, sources: inspect.ReversePath{FIB: f},
	}
}

// LargeFrom sets the offset of the first large frame in memory. It is called before Secure.
func (e *Engine) LargeFrom(at int) { e.frames.Large = at }

// Secure makes the engine apply the policies of a gateway, as one of its workers.
func (e *Engine) Secure(g *gateway.Gateway, worker int) {
	e.esp = esp.New(e.fib, e.frames, e.partialChecksums, g, worker)
	e.fib.VLANs.LeaveTags()
}

// ESP returns the stage that applies the gateway's policies, nil without a gateway.
func (e *Engine) ESP() *esp.Stage { return e.esp }

// Over returns an engine that decides by the same tables on frames in other memory, for Route alone.
func (e *Engine) Over(mem []byte) *Engine {
	other := New(e.fib, mem, e.partialChecksums)
	other.esp = e.esp
	return other
}

// Tags returns the VLAN tags that the engine adds to frames.
func (e *Engine) Tags() *fib.TagWords { return e.tags }

// Name is "cpu".
func (e *Engine) Name() string { return "cpu" }

// Done is true: Submit does all the work.
func (e *Engine) Done(*batch.Chunk) bool { return true }

// Adjacencies returns the capacity of the FIB in adjacencies.
func (e *Engine) Adjacencies() int { return len(e.words.Adjacencies) }

// Quiesced is true: no packet is ever lost.
func (e *Engine) Quiesced() bool { return true }

// Submit decides on every packet of the chunk. c.Out may have any content before.
func (e *Engine) Submit(c *batch.Chunk) {
	in, out := c.In[:c.N], c.Out[:c.N]
	if e.esp != nil {
		e.esp.Apply(in, out)
	}
	e.route(in, out, c.Cached)
}

// Decide decides on packets to which the policies of a gateway were applied, or are not to be. It clears
// out first, which may have any content.
func (e *Engine) Decide(in []batch.Frame, out []batch.Result) {
	clear(out)
	e.Route(in, out)
}

// Route looks up and rewrites packets. Without a gateway, it applies reverse path filtering first, and out may have any content.
// With one, it skips packets that already have a verdict in out, from the ESP stage, which has checked sources.
func (e *Engine) Route(in []batch.Frame, out []batch.Result) { e.route(in, out, false) }

// route is Route for packets whose headers may be in the cache.
func (e *Engine) route(in []batch.Frame, out []batch.Result, cached bool) {
	verify := e.esp == nil && e.fib.HasRPF()
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		if !cached && e.esp == nil { // the ESP stage prefetches them itself
			prefetch.WriteAt(e.frames.Mem, in[start:end])
		}
		if verify {
			clear(out[start:end])
			e.sources.Check(&e.frames, in[start:end], out[start:end])
		}
		e.validate(in, out, start, end, verify || e.esp != nil)
		e.fib.IPv4.LookupBatch(e.v4.hops[:], e.v4.addr[:e.v4.N])
		e.fib.IPv6.LookupBatch(e.v6.hops[:], e.v6.addr[:e.v6.N])
		e.rewrite(in, out)
		if e.v4.VRFs+e.v6.VRFs > 0 {
			v4, v6 := block-e.v4.VRFs, block-e.v6.VRFs
			e.fib.IPv4.LookupVRFs(e.v4.hops[v4:], e.vrf4[v4:], e.v4.addr[v4:])
			e.fib.IPv6.LookupVRFs(e.v6.hops[v6:], e.vrf6[v6:], e.v6.addr[v6:])
			e.rewriteInVRFs(in, out, v4, v6)
		}
	}
}

// validate drops invalid packets and lists the others for lookup. If decided, packets with a
// verdict are skipped.
func (e *Engine) validate(in []batch.Frame, out []batch.Result, start, end int, decided bool) {
	e.v4.Places, e.v6.Places = inspect.Places{}, inspect.Places{}
	vrfs, vrf := e.fib.HasVRFs(), uint16(0)
	for i := start; i < end; i++ {
		if decided && out[i].Verdict != 0 {
			continue
		}
		if vrfs {
			vrf = e.fib.PortVRF(in[i].Origin.Port())
		}
		b := e.frames.Bytes(in[i])
		reason := batch.TooShort
		if len(b) >= packet.EthernetLen {
			p := b[packet.EthernetLen:]
			switch (*packet.Ethernet)(b).Type() {
			case packet.EtherTypeIPv4:
				if reason = inspect.IPv4(p); reason == inspect.OK {
					if vrf != 0 {
						e.listInVRF(i, (*packet.IPv4)(p).Dst(), vrf)
						continue
					}
					n := e.v4.N
					e.v4.at[n], e.v4.addr[n] = int32(i), (*packet.IPv4)(p).Dst()
					e.v4.N = n + 1
					continue
				}
			case packet.EtherTypeIPv6:
				n := e.v6.N
				if vrf != 0 {
					n = block - 1 - e.v6.VRFs
				}
				if reason = inspect.IPv6(p, &e.v6.l4[n]); reason == inspect.OK {
					e.v6.at[n], e.v6.addr[n] = int32(i), (*packet.IPv6)(p).Dst()
					if vrf != 0 {
						e.vrf6[n] = vrf
						e.v6.VRFs++
						continue
					}
					e.v6.N = n + 1
					continue
				}
			default:
				reason = batch.EtherType
			}
		}
		out[i] = batch.DropFor(reason)
	}
}

// listInVRF lists an IPv4 packet for lookup in a VRF.
func (e *Engine) listInVRF(i int, dst uint32, vrf uint16) {
	n := e.v4.Next(vrf)
	e.v4.at[n], e.v4.addr[n], e.vrf4[n] = int32(i), dst, vrf
	e.v4.Add(vrf)
}

// rewriteInVRFs is rewrite for the packets in VRFs, from an index on for each family.
func (e *Engine) rewriteInVRFs(in []batch.Frame, out []batch.Result, v4, v6 int) {
	for j := v4; j < block; j++ {
		i := e.v4.at[j]
		out[i] = e.forwardIPv4(in[i], e.v4.hops[j])
	}
	for j := v6; j < block; j++ {
		i := e.v6.at[j]
		out[i] = e.forwardIPv6(in[i], e.v6.hops[j], &e.v6.l4[j])
	}
}

// rewrite gives every packet that was looked up outside of VRFs its verdict, and writes the link headers of those
// that are forwarded.
func (e *Engine) rewrite(in []batch.Frame, out []batch.Result) {
	for j := range e.v4.N {
		i := e.v4.at[j]
		out[i] = e.forwardIPv4(in[i], e.v4.hops[j])
	}
	for j := range e.v6.N {
		i := e.v6.at[j]
		out[i] = e.forwardIPv6(in[i], e.v6.hops[j], &e.v6.l4[j])
	}
}

// reasons are the drop reasons of next hops that do not forward.
var reasons = [...]batch.Reason{
	fib.KindNone:        batch.NoRoute,
	fib.KindForward:     batch.Unprocessed, // not used
	fib.KindLocal:       batch.LocalDelivery,
	fib.KindBlackhole:   batch.Blackhole,
	fib.KindUnreachable: batch.Unreachable,
	fib.KindProhibit:    batch.Prohibit,
	fib.KindNoPort:      batch.NoPort,
	fib.KindNoTable:     batch.NoTable,
}

// egress decides on an IP packet of size bytes that leaves by an adjacency. The result is a
// forward, without address and length; a hold; or a drop. The words have the link addresses to write.
func (e *Engine) egress(hop fib.NextHop, adjacency uint32, size int) (r batch.Result, adj fib.Adjacency, port fib.Port) {
	adj = fib.Adjacency(atomic.LoadUint64(&e.words.Adjacencies[adjacency]))
	number := adj.Port()
	port = fib.Port(atomic.LoadUint64(&e.words.Ports[number]))
	mtu, v := uint16(0), batch.Forward(number)
	switch {
	case port.MTU() == 0:
		v = batch.Drop(batch.PortDown)
	case size > int(hop.Limit(port.MTU())):
		mtu, v = hop.Limit(port.MTU()), batch.Drop(batch.MTUExceeded)
	case !adj.Resolved():
		v = batch.Hold
	}
	return batch.MakeResult(adjacency, mtu, v), adj, port
}

// tagRoom is the number of bytes in front of a frame that a VLAN tag needs: devices write whole words.
const tagRoom = umem.Headroom + fib.TagLen

// bucket returns the adjacency of a flow in an ECMP group.
func (e *Engine) bucket(group, hash uint32) uint32 {
	return atomic.LoadUint32(&e.words.Groups[group*fib.Buckets+hash>>24])
}
