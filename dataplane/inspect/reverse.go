package inspect

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/packet"
)

// ReversePath drops packets that arrive by a port on which their source is not accepted
// (RFC 3704). It belongs to one worker.
type ReversePath struct {
	FIB *fib.FIB

	// Sources of the block to look up, by family, with the packets' indices in the block.
	v4 struct {
		n    int
		at   [Block]int32
		addr [Block]uint32
		hops [Block]lookup.NextHop
	}
	v6 struct {
		n    int
		at   [Block]int32
		addr [Block][16]byte
		hops [Block]lookup.NextHop
	}
}

// Check drops packets of a block whose source fails the check of their port, whatever else is
// wrong with them: no ICMP error is sent to such a source. It leaves the other results alone.
// Packets with a mark are exempt: the router made them, or their outer packet was checked.
// Frames without a whole IP header are left to validation.
func (c *ReversePath) Check(frames *Frames, in []batch.Frame, out []batch.Result) {
	c.list(frames, in)
	c.FIB.IPv4.LookupBatch(c.v4.hops[:], c.v4.addr[:c.v4.n])
	c.FIB.IPv6.LookupBatch(c.v6.hops[:], c.v6.addr[:c.v6.n])
	for j := range c.v4.n {
		if i := c.v4.at[j]; !c.FIB.PassesRPF(c.FIB.RPF(in[i].Origin.Port()).IPv4, in[i].Origin.Port(), c.v4.hops[j]) {
			out[i] = batch.DropFor(batch.ReversePath)
		}
	}
	for j := range c.v6.n {
		if i := c.v6.at[j]; !c.FIB.PassesRPF(c.FIB.RPF(in[i].Origin.Port()).IPv6, in[i].Origin.Port(), c.v6.hops[j]) {
			out[i] = batch.DropFor(batch.ReversePath)
		}
	}
}

// list collects the sources of a block whose ports check them.
func (c *ReversePath) list(frames *Frames, in []batch.Frame) {
	const src4, src6 = packet.EthernetLen + 12, packet.EthernetLen + 8
	c.v4.n, c.v6.n = 0, 0
	for i, f := range in {
		if f.Origin.Marks() != 0 {
			continue
		}
		check, b := c.FIB.RPF(f.Origin.Port()), frames.Bytes(f)
		if check == (fib.RPF{}) || len(b) < packet.EthernetLen+packet.IPv4Len {
			continue
		}
		switch (*packet.Ethernet)(b).Type() {
		case packet.EtherTypeIPv4:
			if n := c.v4.n; check.IPv4 != fib.RPFOff {
				c.v4.at[n], c.v4.addr[n] = int32(i), binary.BigEndian.Uint32(b[src4:])
				c.v4.n = n + 1
			}
		case packet.EtherTypeIPv6:
			if n := c.v6.n; check.IPv6 != fib.RPFOff && len(b) >= packet.EthernetLen+packet.IPv6Len {
				c.v6.at[n], c.v6.addr[n] = int32(i), [16]byte(b[src6:])
				c.v6.n = n + 1
			}
		}
	}
}
