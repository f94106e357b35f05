package gen

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// templates are the frames of all flows without sequence number, time and checksum.
type templates struct {
	layout
	lengths []int // of frames, in memory
	order   []int // of lengths, in sending order
	flows   int
	headers []byte // by flow and length: the frame up to the end of the probe
	fill    []byte // the rest of the largest frame, the same in all
}

// ttl is high enough for a test network and ends loops.
const ttl = 64

func newTemplates(t *Traffic, run uint32) *templates {
	lengths, order := t.sizes()
	ts := &templates{layout: layoutOf(t.ipv6()), lengths: lengths, order: order, flows: t.Flows}
	ts.headers = make([]byte, 0, t.Flows*len(lengths)*ts.head)
	src, dst := t.spreadSrc(), t.spreadDst()

	frame := make([]byte, lengths[len(lengths)-1])
	for i := ts.head; i < len(frame); i++ {
		frame[i] = byte(i)
	}
	ts.fill = frame[ts.head:]
	copy(frame, t.DstMAC)
	copy(frame[6:], t.SrcMAC)
	binary.BigEndian.PutUint16(frame[ts.probe:], magic)
	binary.BigEndian.PutUint16(frame[ts.probe+offRun:], uint16(run))
	for flow := range t.Flows {
		binary.BigEndian.PutUint16(frame[ts.udp:], sourcePort(flow))
		binary.BigEndian.PutUint16(frame[ts.udp+2:], udpPort)
		binary.BigEndian.PutUint32(frame[ts.probe+offFlow:], uint32(flow))
		for _, n := range lengths {
			ts.complete(frame[:n], src.host(flow).AsSlice(), dst.host(flow).AsSlice())
			ts.headers = append(ts.headers, frame[:ts.head]...)
		}
	}
	return ts
}

// complete writes the IP header and the lengths of a frame. The UDP checksum field gets the sum without
// sequence number and time, not complemented; write adds those.
func (ts *templates) complete(frame, src, dst []byte) {
	ip, udp := frame[packet.EthernetLen:ts.udp], frame[ts.udp:]
	if len(src) == 4 {
		binary.BigEndian.PutUint16(frame[12:], uint16(packet.EtherTypeIPv4))
		clear(ip)
		ip[0], ip[8], ip[9] = 0x45, ttl, byte(packet.UDP)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
		binary.BigEndian.PutUint16(ip[6:], 0x4000) // don't fragment
		copy(ip[12:], src)
		copy(ip[16:], dst)
		binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip))
	} else {
		binary.BigEndian.PutUint16(frame[12:], uint16(packet.EtherTypeIPv6))
		ip[0], ip[6], ip[7] = 0x60, byte(packet.UDP), ttl
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		copy(ip[8:], src)
		copy(ip[24:], dst)
	}
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	clear(udp[6:8])
	addrs := ip[len(ip)-2*len(src):]
	sum := add16(packet.Sum(addrs), packet.Sum(udp), uint16(packet.UDP), uint16(len(udp)))
	binary.BigEndian.PutUint16(udp[6:], sum)
}

// write builds the next frame of a flow. The frame must have its fill.
func (ts *templates) write(frame []byte, flow, length int, seq uint32, now uint64) {
	at := (flow*len(ts.lengths) + length) * ts.head
	copy(frame[:ts.head], ts.headers[at:at+ts.head])
	p := frame[ts.probe:ts.head]
	binary.BigEndian.PutUint32(p[offSeq:], seq)
	binary.BigEndian.PutUint16(p[offTime:], uint16(now>>32))
	binary.BigEndian.PutUint32(p[offTime+2:], uint32(now))
	field := frame[ts.udp+6 : ts.udp+8]
	sum := ^add16(binary.BigEndian.Uint16(field),
		uint16(seq>>16), uint16(seq), uint16(now>>32), uint16(now>>16), uint16(now))
	if sum == 0 {
		sum = 0xffff // 0 means no checksum (RFC 768)
	}
	binary.BigEndian.PutUint16(field, sum)
}

// add16 returns the ones' complement sum of words (RFC 1071).
func add16(words ...uint16) uint16 {
	var s uint32
	for _, w := range words {
		s += uint32(w)
	}
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s&0xffff)
}
