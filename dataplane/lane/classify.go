package lane

import (
	"encoding/binary"
	"math/bits"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// block is the number of packets that are classified together.
const block = 64

// Classifier finds the lanes of one worker's packets.
type Classifier struct {
	*Lanes
	last  uint8              // lane of packets without a match
	pairs *policy.PlainCache // nil without IPsec

	// IPv4 packets of the block that are in a lane if they are plain: their indices, lanes, and pairs of
	// addresses.
	at   [block]uint8
	lane [block]uint8
	pair [block]uint64
}

// NewClassifier returns a worker's classifier.
func (c *Lanes) NewClassifier() *Classifier {
	k := &Classifier{Lanes: c, last: uint8(len(c.all) - 1)}
	if c.gateway != nil {
		k.pairs = new(policy.PlainCache)
	}
	return k
}

// Prefetch prefetches the headers of frames, for Classify.
func (k *Classifier) Prefetch(mem []byte, frames []batch.Frame) { prefetch.ReadAt(mem, frames) }

// Classify stores the lane of each frame in lanes, which is at least as long. Frames may have any content:
// those without a whole IP header enter the last lane. It reads their headers: see Prefetch. It does not allocate.
//
// Packets of a flow have the same lane as long as their DSCP and the outbound policies do not change, unless
// a lane matches ports and the flow has fragments, which show none.
func (k *Classifier) Classify(mem []byte, frames []batch.Frame, lanes []uint8) {
	if k.pairs != nil {
		k.pairs.Use(k.gateway.Outbound())
	}
	for len(frames) > 0 {
		n := min(len(frames), block)
		if k.plainAlone && k.pairs != nil {
			k.classifyPlain(mem, frames[:n], lanes[:n])
		} else {
			k.classify(mem, frames[:n], lanes[:n])
		}
		frames, lanes = frames[n:], lanes[n:]
	}
}

// Offsets in an Ethernet frame, and the type and first byte of IPv4 without options as a little-endian word.
const (
	common   = packet.EthernetLen + packet.IPv4Len + 4
	typeAt   = 12
	tosAt    = packet.EthernetLen + 1
	fragAt   = packet.EthernetLen + 6
	protoAt  = packet.EthernetLen + 9
	pairAt   = packet.EthernetLen + 12
	portsAt  = packet.EthernetLen + packet.IPv4Len
	ipv4Word = 0x45<<16 | 0x0008
)

// classify classifies a block: the common packets here, which are of IPv4 without options and not ESP, and
// without conditions on ports; all others by lookUp.
func (k *Classifier) classify(mem []byte, frames []batch.Frame, lanes []uint8) {
	n, certain, others := uint(0), ^(k.plainOnly | k.withPorts), uint64(0)
	lanes = lanes[:len(frames)]
	for i, f := range frames {
		if f.Len < common || f.Origin.Marks() != 0 {
			lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
			continue
		}
		h := (*[common]byte)(mem[f.Addr:])
		protocol := packet.Protocol(h[protoAt])
		matches := k.byProtocol[protocol] & k.byDSCP[h[tosAt]>>2]
		first := matches & -matches
		switch {
		case binary.LittleEndian.Uint32(h[typeAt:])&0xffffff != ipv4Word || first&k.withPorts != 0:
			lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
		case first&certain != 0 || matches == 0:
			lanes[i] = k.laneOf(first)
		case protocol == esp || protocol == packet.UDP && binary.BigEndian.Uint16(h[portsAt+2:]) == ipsec.PortNATT:
			if lanes[i] = k.last; matches&^k.plainOnly != 0 || protocol == packet.UDP {
				lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
			}
		case k.pairs == nil:
			lanes[i] = k.laneOf(first)
		default:
			others |= matches &^ k.plainOnly
			k.at[n%block], k.lane[n%block] = uint8(i), k.laneOf(first)
			k.pair[n%block] = binary.BigEndian.Uint64(h[pairAt:])
			n++
		}
	}
	if n == 0 {
		return
	}
	plain := k.plain(k.pair[:n])
	for j := range n {
		i := k.at[j%block]
		lanes[i] = k.lane[j%block]
		if plain>>(j%block)&1 == 0 {
			if lanes[i] = k.last; others != 0 {
				f := frames[i]
				lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
			}
		}
	}
}

// classifyPlain is classify if all that counts is whether packets are plain, as with the default lanes.
func (k *Classifier) classifyPlain(mem []byte, frames []batch.Frame, lanes []uint8) {
	n := uint(0)
	lanes = lanes[:len(frames)]
	for i, f := range frames {
		lanes[i] = k.last
		if f.Len < common || f.Origin.Marks() != 0 {
			lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
			continue
		}
		h := (*[common]byte)(mem[f.Addr:])
		protocol := packet.Protocol(h[protoAt])
		switch {
		case binary.LittleEndian.Uint32(h[typeAt:])&0xffffff != ipv4Word, protocol == packet.UDP && h[portsAt+2] == ipsec.PortNATT>>8:
			lanes[i] = k.lookUp(mem[f.Addr:uint64(f.Addr)+uint64(f.Len)], f.Origin)
		case protocol != esp:
			k.at[n%block] = uint8(i)
			k.pair[n%block] = binary.BigEndian.Uint64(h[pairAt:])
			n++
		}
	}
	for plain := k.plain(k.pair[:n]) & (1<<n - 1); plain != 0; plain &= plain - 1 {
		lanes[k.at[bits.TrailingZeros64(plain)%block]] = k.lanes[0]
	}
}

// laneOf returns the lane of a match, the last one of none.
func (k *Classifier) laneOf(match uint64) uint8 { return k.lanes[bits.TrailingZeros64(match)] }

// header is what lanes distinguish in the headers of a packet.
type header struct {
	ip       []byte
	protocol packet.Protocol
	ports    uint32 // the first 32 bits behind the IP headers
	hidden   bool   // the packet shows no ports: a fragment, or truncated
}

// lookUp returns the lane of any frame.
func (k *Classifier) lookUp(b []byte, o batch.Origin) uint8 {
	const plain = 0x45 // version 4, no options
	if len(b) < common {
		return k.last
	}
	f, h := (*[common]byte)(b), header{ip: b[packet.EthernetLen:]}
	var dscp uint8
	switch t := (*packet.Ethernet)(b).Type(); {
	case t == packet.EtherTypeIPv4 && f[packet.EthernetLen] == plain:
		h.protocol, dscp = packet.Protocol(f[23]), f[15]>>2
		h.hidden = (uint32(f[20])<<8|uint32(f[21]))&0x3fff != 0
		h.ports = binary.BigEndian.Uint32(f[34:])
	case t == packet.EtherTypeIPv6 && len(b) >= packet.EthernetLen+packet.IPv6Len && f[packet.EthernetLen]>>4 == 6:
		dscp = f[14]<<4>>2 | f[15]>>6
		if !h.readIPv6() {
			return k.last
		}
	default: // other EtherTypes, and IPv4 options, which no engine forwards
		return k.last
	}
	return k.match(&h, k.byProtocol[h.protocol]&k.byDSCP[dscp&63], o)
}

// readIPv6 reads protocol and ports of an IPv6 packet. It is not ok if the extension headers are malformed.
func (h *header) readIPv6() (ok bool) {
	l4 := packet.L4{Proto: (*packet.IPv6)(h.ip).NextHeader(), Offset: packet.IPv6Len}
	if l4.Proto.IsExtension() {
		if l4, ok = packet.FindL4(h.ip); !ok {
			return false
		}
	}
	h.protocol, h.hidden = l4.Proto, l4.Fragment || l4.Offset+4 > len(h.ip)
	if !h.hidden {
		h.ports = binary.BigEndian.Uint32(h.ip[l4.Offset:])
	}
	return true
}

// match returns the lane of the first of a set of matches that holds.
func (k *Classifier) match(h *header, matches uint64, o batch.Origin) uint8 {
	for matches != 0 {
		bit := matches & -matches
		m := &k.matches[bits.TrailingZeros64(matches)]
		switch {
		case bit&k.plainOnly != 0 && !k.isPlain(h, o):
			matches &^= k.plainOnly
		case bit&k.withPorts != 0 && (h.hidden || !hasPorts(h.protocol) ||
			!m.src.contains(uint16(h.ports>>16)) || !m.dst.contains(uint16(h.ports))):
			matches &^= bit
		default:
			return k.laneOf(bit)
		}
	}
	return k.last
}

// isPlain reports whether IPsec neither decrypts nor encrypts a packet. It is not if the packet is ESP,
// whatever its destination, or if a policy protects or discards any traffic between its addresses.
func (k *Classifier) isPlain(h *header, o batch.Origin) bool {
	switch {
	case h.protocol == esp, h.protocol == packet.UDP && !h.hidden && uint16(h.ports) == ipsec.PortNATT:
		return false
	case k.pairs == nil || o.Has(batch.PolicyDone):
		return true
	case h.ip[0]>>4 == 4:
		pair := [1]uint64{binary.BigEndian.Uint64(h.ip[12:])}
		return k.plain(pair[:])&1 != 0
	}
	return k.pairs.LookupIPv6((*[16]byte)(h.ip[8:]), (*[16]byte)(h.ip[24:])) && !k.leadsToTunnel([16]byte(h.ip[24:]))
}

const esp packet.Protocol = 50

// hasPorts reports whether a protocol's header begins with two ports.
func hasPorts(p packet.Protocol) bool {
	const dccp, sctp, udplite = 33, 132, 136
	return p == packet.TCP || p == packet.UDP || p == dccp || p == sctp || p == udplite
}
