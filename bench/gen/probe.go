package gen

import (
	"encoding/binary"
	"time"

	"github.com/warproute/warproute/packet"
)

// A probe is at the start of the UDP payload of every frame. Numbers are big-endian:
//
//	0       2     4        8          12             18
//	+-------+-----+--------+----------+---------------+
//	| magic | run | flow   | sequence | time sent, ns |
//	+-------+-----+--------+----------+---------------+
//
// The run identifies the frames of one Run. The sequence number counts the frames of its flow from 0
// and wraps; the receiver extends it. The time is the lower 48 bits of CLOCK_MONOTONIC, which wrap in
// 3 days.
const (
	probeLen = 18
	magic    = 0x5752

	offRun, offFlow, offSeq, offTime = 2, 4, 8, 12
)

const (
	timeMask = 1<<48 - 1
	udpLen   = 8
	// udpPort is the destination port: discard (RFC 863), so that hosts do not answer.
	udpPort = 9
)

// layout is the offsets in a frame.
type layout struct {
	udp, probe, head int // UDP header, probe, end of the probe
}

var (
	layout4 = layout{packet.EthernetLen + packet.IPv4Len, packet.EthernetLen + packet.IPv4Len + udpLen, packet.EthernetLen + packet.IPv4Len + udpLen + probeLen}
	layout6 = layout{packet.EthernetLen + packet.IPv6Len, packet.EthernetLen + packet.IPv6Len + udpLen, packet.EthernetLen + packet.IPv6Len + udpLen + probeLen}
)

func layoutOf(ipv6 bool) layout {
	if ipv6 {
		return layout6
	}
	return layout4
}

// probe is the decoded contents of a probe.
type probe struct {
	run  uint32
	flow uint32
	seq  uint32
	sent uint64 // 48 bits
}

// age returns the time since a probe was sent. It is not ok if its clock is another host's.
func (p *probe) age(now time.Duration) (ns uint64, ok bool) {
	ns = (uint64(now) - p.sent) & timeMask
	return ns, ns <= timeMask/2
}

// kind is the kind of a received frame.
type kind uint8

const (
	unknown   kind = iota // no probe
	corrupted             // a probe with wrong lengths or checksums
	intact
)

// read decodes a frame. The checksums of an intact frame are right. A frame is corrupted if its magic or
// its port matches, and a length or checksum is wrong.
func read(frame []byte) (probe, kind) {
	if len(frame) < layout4.head {
		return probe{}, unknown
	}
	switch (*packet.Ethernet)(frame).Type() {
	case packet.EtherTypeIPv4:
		ip := (*packet.IPv4)(frame[packet.EthernetLen:])
		return readUDP(frame, layout4, frame[26:34], ip.Protocol(), ip.TotalLen()-packet.IPv4Len,
			ip.Version() == 4 && ip.HeaderLen() == packet.IPv4Len && !ip.Fragmented() && ip.ChecksumOK())
	case packet.EtherTypeIPv6:
		if len(frame) < layout6.head {
			return probe{}, unknown
		}
		ip := (*packet.IPv6)(frame[packet.EthernetLen:])
		return readUDP(frame, layout6, frame[22:54], ip.NextHeader(), ip.PayloadLen(), ip.Version() == 6)
	}
	return probe{}, unknown
}

// readUDP decodes a frame from the UDP header on. addrs are source and destination, length is the IP
// payload length, and good reports a valid IP header.
func readUDP(frame []byte, at layout, addrs []byte, proto packet.Protocol, length int, good bool) (probe, kind) {
	p := frame[at.probe:at.head]
	ours := binary.BigEndian.Uint16(p) == magic
	if !ours && (proto != packet.UDP || binary.BigEndian.Uint16(frame[at.udp+2:]) != udpPort) {
		return probe{}, unknown
	}
	good = good && proto == packet.UDP &&
		length >= udpLen+probeLen && at.udp+length <= len(frame) && int(binary.BigEndian.Uint16(frame[at.udp+4:])) == length
	if !good || !checksumHolds(addrs, frame[at.udp:at.udp+length]) {
		return probe{}, corrupted
	}
	if !ours {
		return probe{}, unknown // of another program, to the same port
	}
	return probe{
		run:  uint32(binary.BigEndian.Uint16(p[offRun:])),
		flow: binary.BigEndian.Uint32(p[offFlow:]),
		seq:  binary.BigEndian.Uint32(p[offSeq:]),
		sent: binary.BigEndian.Uint64(p[offTime-2:]) & timeMask,
	}, intact
}

// checksumHolds verifies a UDP checksum. A missing one is wrong.
func checksumHolds(addrs, udp []byte) bool {
	s := uint32(packet.Sum(addrs)) + uint32(packet.Sum(udp)) + uint32(packet.UDP) + uint32(len(udp))
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return s == 0xffff && (udp[6] != 0 || udp[7] != 0)
}
