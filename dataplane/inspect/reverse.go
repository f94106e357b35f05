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
		Places
		at   [Block]int32
		addr [Block]uint32
		vrf  [Block]uint16
		hops [Block]lookup.NextHopID
	}
	v6 struct {
		Places
		at   [Block]int32
		addr [Block][16]byte
		vrf  [Block]uint16
		hops [Block]lookup.NextHopID
	}
}

// Places counts the packets of a block that are listed for a lookup in arrays of Block elements: those of the main
// table from the first on, and those in VRFs from the last down.
type Places struct{ N, VRFs int }

// Next returns the place of another packet in a VRF, 0 for none. Add keeps it.
func (p *Places) Next(vrf uint16) int {
	if vrf == 0 {
		return p.N
	}
	return Block - 1 - p.VRFs
}

// Add keeps the place that Next returned.
func (p *Places) Add(vrf uint16) {
	if vrf == 0 {
		p.N++
	} else {
		p.VRFs++
	}
}

// Check drops packets of a block whose source fails the check of their port, whatever else is
// wrong with them: no ICMP error is sent to such a source. It leaves the other results alone.
// Packets with a mark are exempt: the router made them, or their outer packet was checked.
// Frames without a whole IP header are left to validation.
func (c *ReversePath) Check(frames *Frames, in []batch.Frame, out []batch.Result) {
	c.list(frames, in)
	c.FIB.IPv4.LookupBatch(c.v4.hops[:], c.v4.addr[:c.v4.N])
	c.FIB.IPv6.LookupBatch(c.v6.hops[:], c.v6.addr[:c.v6.N])
	c.drop(in, out, 0, c.v4.N, 0, c.v6.N)
	if c.v4.VRFs+c.v6.VRFs > 0 {
		v4, v6 := Block-c.v4.VRFs, Block-c.v6.VRFs
		c.FIB.IPv4.LookupVRFs(c.v4.hops[v4:], c.v4.vrf[v4:], c.v4.addr[v4:])
		c.FIB.IPv6.LookupVRFs(c.v6.hops[v6:], c.v6.vrf[v6:], c.v6.addr[v6:])
		c.drop(in, out, v4, Block, v6, Block)
	}
}

// drop drops the packets that fail the check, of those from an index to another for each family.
func (c *ReversePath) drop(in []batch.Frame, out []batch.Result, v4, end4, v6, end6 int) {
	for j := v4; j < end4; j++ {
		if i := c.v4.at[j]; !c.FIB.PassesRPF(c.FIB.RPF(in[i].Origin.Port()).IPv4, in[i].Origin.Port(), c.v4.hops[j]) {
			out[i] = batch.DropFor(batch.ReversePath)
		}
	}
	for j := v6; j < end6; j++ {
		if i := c.v6.at[j]; !c.FIB.PassesRPF(c.FIB.RPF(in[i].Origin.Port()).IPv6, in[i].Origin.Port(), c.v6.hops[j]) {
			out[i] = batch.DropFor(batch.ReversePath)
		}
	}
}

// list collects the sources of a block whose ports check them.
func (c *ReversePath) list(frames *Frames, in []batch.Frame) {
	const src4, src6 = packet.EthernetLen + 12, packet.EthernetLen + 8
	c.v4.Places, c.v6.Places = Places{}, Places{}
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
			if vrf := c.FIB.PortVRF(f.Origin.Port()); check.IPv4 != fib.RPFOff {
				n := c.v4.Next(vrf)
				c.v4.at[n], c.v4.addr[n], c.v4.vrf[n] = int32(i), binary.BigEndian.Uint32(b[src4:]), vrf
				c.v4.Add(vrf)
			}
		case packet.EtherTypeIPv6:
			if vrf := c.FIB.PortVRF(f.Origin.Port()); check.IPv6 != fib.RPFOff && len(b) >= packet.EthernetLen+packet.IPv6Len {
				n := c.v6.Next(vrf)
				c.v6.at[n], c.v6.addr[n], c.v6.vrf[n] = int32(i), [16]byte(b[src6:]), vrf
				c.v6.Add(vrf)
			}
		}
	}
}
