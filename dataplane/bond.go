package dataplane

import (
	"encoding/binary"
	"math/bits"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// A bond is a logical port (fib.Bonds). Frames that its members receive have the bond as origin before VLAN tags
// are removed, so engines see one port. The worker selects the member that transmits a frame by a hash of its flow,
// when the frame is ready: packets of one flow that an engine has decided on leave by one member at any time.

// enterBond makes a bond the origin of a burst of frames that a member received, and counts them and their bytes. It is
// not ok if there is no such bond.
func (w *worker) enterBond(bond uint16, frames []batch.Frame) (bytes int, ok bool) {
	t := w.logical.tally(bond)
	if t == nil {
		return 0, false
	}
	origin, words, sum := uint64(batch.From(bond))<<48, batch.Words(frames), uint64(0)
	for i, word := range words {
		words[i] = origin | word<<16>>16
		sum += word >> 32 & 0xffff
	}
	t.rx += packed(len(frames), int(sum))
	return int(sum), true
}

// memberFor returns the member of a bond that transmits the packet of a frame, which begins an Ethernet header before its IP
// header: behind the tags, if there are some. It is not ok if no member transmits.
func (w *worker) memberFor(bond uint16, f batch.Frame) (port uint16, ok bool) {
	members := w.logical.table.Bonds().Members(bond)
	switch {
	case members == nil:
		return 0, false
	case members.Single():
		return members.Port(0), true
	}
	p := w.mem[f.Addr+packet.EthernetLen : uint64(f.Addr)+uint64(f.Len)]
	return members.Port(flowHash(p, w.memberSeed())), true
}

// memberSeed is the seed of the hash that selects a member.
func (w *worker) memberSeed() uint64 { return (uint64(w.fib.Seed) + 1) * 0xd1342543de82ef95 }

// flowHash hashes the flow of a packet that an engine has decided to forward: a valid IP packet. Each SA of ESP is a
// flow, so that tunnels between the same gateways use all members. Fragments are hashed by their addresses alone.
func flowHash(p []byte, seed uint64) uint32 {
	if p[0]>>4 != 4 {
		return flowHashIPv6(p, seed)
	}
	h := (*packet.IPv4)(p)
	addresses := binary.LittleEndian.Uint64(h[12:])
	l4 := uint64(h.Protocol()) << 32
	if h.Fragmented() {
		return mix(addresses^seed, 0)
	}
	if hasFlowID[h.Protocol()] && len(p) >= packet.IPv4Len+4 {
		l4 |= uint64(binary.LittleEndian.Uint32(p[packet.IPv4Len:]))
	}
	return mix(addresses^seed, l4)
}

func flowHashIPv6(p []byte, seed uint64) uint32 {
	h := (*packet.IPv6)(p)
	l4 := packet.L4{Proto: h.NextHeader(), Offset: packet.IPv6Len}
	if l4.Proto.IsExtension() {
		l4, _ = packet.FindL4(p)
	}
	id := uint64(0)
	if !l4.Fragment {
		id = uint64(l4.Proto) << 32
		if hasFlowID[l4.Proto] && len(p) >= l4.Offset+4 {
			id |= uint64(binary.LittleEndian.Uint32(p[l4.Offset:]))
		}
	}
	src := fold(binary.LittleEndian.Uint64(h[8:])^seed, binary.LittleEndian.Uint64(h[16:])^spread)
	dst := fold(binary.LittleEndian.Uint64(h[24:])^seed, binary.LittleEndian.Uint64(h[32:])^spread)
	return mix(src^bits.RotateLeft64(dst, 32), id)
}

// spread is the fractional part of the golden ratio, with as many ones as zeros.
const spread = 0x9e3779b97f4a7c15

// fold multiplies two numbers and combines the halves of the product.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// mix returns the hash of a number that depends on the seed and another one. Numbers b that follow one another cause folds in
// equal steps, by which some seeds would give few flows the same upper bits; the second product spreads them.
func mix(a, b uint64) uint32 { return uint32(fold(a, b^spread) * spread >> 32) }

// hasFlowID are the protocols whose first four bytes identify a flow between two addresses: ports, or the SPI of ESP.
var hasFlowID = func() (has [256]bool) {
	const dccp, esp, sctp, udplite = 33, 50, 132, 136
	for _, p := range []packet.Protocol{packet.TCP, packet.UDP, dccp, esp, sctp, udplite} {
		has[p] = true
	}
	return has
}()
