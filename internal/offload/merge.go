package offload

import (
	"bytes"
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Merger groups the packets of a burst: packets that leave as one large packet, in order. The order of
// packets within a flow is kept, that between flows is not. It is not safe for concurrent use.
type Merger struct {
	groups []Group
	next   []int32           // by packet: the next one of its group, -1 for the last
	open   [openFlows]int32  // by flow hash: the group that a packet of the flow may join, -1 for none
	valid  []bool            // by packet: its TCP or UDP checksum was verified
	head   [openFlows]header // of the first packet of the open group
}

// openFlows is the number of flows that are merged at a time.
const openFlows = 64

// Group is a list of packets that are merged, or a single packet that is not.
type Group struct {
	First   int // index of its first packet
	Packets int
	Bytes   int // of the merged packet

	last    int
	payload int // of the first packet
	next    uint32
}

// header is what merging needs to know about a packet.
type header struct {
	proto  packet.Protocol
	l4     int  // offset of the TCP or UDP header
	len    int  // of IP and TCP or UDP header
	joins  bool // it may follow another packet
	open   bool // another packet may follow it
	closes bool // nothing may follow it once it has joined others
}

// NewMerger returns a merger for bursts of up to n packets.
func NewMerger(n int) *Merger {
	return &Merger{groups: make([]Group, 0, n), next: make([]int32, n), valid: make([]bool, n)}
}

// Group groups valid IP packets, each without link padding. It does not change them. The result is valid
// until the next call; Next returns the packets of a group. With onlyTCP, UDP packets stay as they are.
func (m *Merger) Group(packets [][]byte, onlyTCP bool) []Group {
	m.groups = m.groups[:0]
	for i := range m.open {
		m.open[i] = -1
	}
	clear(m.valid)
	for i, p := range packets {
		m.next[i] = -1
		h := parse(p)
		if h.l4 == 0 {
			m.close(p)
		}
		if h.l4 == 0 || onlyTCP && h.proto == packet.UDP {
			m.groups = append(m.groups, Group{First: i, Packets: 1, Bytes: len(p), last: i})
			continue
		}
		slot := slotOf(p, h.l4)
		if g := m.open[slot]; g >= 0 && m.join(packets, &m.groups[g], &m.head[slot], i, &h) {
			if h.closes {
				m.open[slot] = -1
			}
			continue
		}
		m.open[slot] = -1
		if h.open {
			m.open[slot], m.head[slot] = int32(len(m.groups)), h
		}
		g := Group{First: i, Packets: 1, Bytes: len(p), last: i, payload: len(p) - h.len}
		if h.proto == packet.TCP {
			g.next = binary.BigEndian.Uint32(p[h.l4+4:]) + uint32(g.payload)
		}
		m.groups = append(m.groups, g)
	}
	return m.groups
}

// Next returns the packet after packet i of a group, -1 behind the last.
func (m *Merger) Next(i int) int { return int(m.next[i]) }

// join adds packet i to a group if it continues it.
func (m *Merger) join(packets [][]byte, g *Group, first *header, i int, h *header) bool {
	a, b := packets[g.First], packets[i]
	payload := len(b) - h.len
	switch {
	case !h.joins, h.proto != first.proto, h.len != first.len, payload > g.payload, g.Bytes+payload > MaxPacket:
		return false
	case !sameIP(a, b, g.Packets):
		return false
	case h.proto == packet.UDP:
		if g.Packets == maxUDPSegments || !bytes.Equal(a[h.l4:h.l4+4], b[h.l4:h.l4+4]) {
			return false
		}
	case g.Packets == maxTCPSegments || binary.BigEndian.Uint32(b[h.l4+4:]) != g.next || !sameTCP(a[h.l4:h.len], b[h.l4:h.len]):
		return false
	}
	if !m.verified(packets, g.First, first) || !m.verified(packets, i, h) {
		return false
	}
	m.next[g.last] = int32(i)
	g.last, g.Packets, g.Bytes, g.next = i, g.Packets+1, g.Bytes+payload, g.next+uint32(payload)
	h.closes = h.closes || payload < g.payload
	return true
}

// verified reports whether the checksums of a packet are right.
func (m *Merger) verified(packets [][]byte, i int, h *header) bool {
	if m.valid[i] {
		return true
	}
	p := packets[i]
	exact := h.proto == packet.UDP || [2]byte(p[h.l4+checksumInTCP:]) != [2]byte{0xff, 0xff} // Linux writes 0
	m.valid[i] = exact && addSums(packet.Sum(p[h.l4:]), pseudoSum(p, h.proto, len(p)-h.l4)) == 0xffff
	return m.valid[i]
}

// parse returns the header of a packet; l4 is 0 for one that has no part in merging: neither TCP nor UDP,
// a fragment, a packet with IP options or extension headers, or an invalid one.
func parse(p []byte) (h header) {
	switch {
	case len(p) >= packet.IPv4Len && p[0] == 0x45:
		ip := (*packet.IPv4)(p)
		if ip.Fragmented() || p[6]&0x80 != 0 || ip.TotalLen() != len(p) || !ip.ChecksumOK() {
			return header{}
		}
		h.proto, h.l4 = ip.Protocol(), packet.IPv4Len
	case len(p) >= packet.IPv6Len && p[0]>>4 == 6:
		ip := (*packet.IPv6)(p)
		if packet.IPv6Len+ip.PayloadLen() != len(p) {
			return header{}
		}
		h.proto, h.l4 = ip.NextHeader(), packet.IPv6Len
	}
	l4 := p[h.l4:]
	switch {
	case h.proto == packet.TCP && len(l4) >= tcpLen && int(l4[12]>>4)*4 >= tcpLen && int(l4[12]>>4)*4 <= len(l4):
		h.len = h.l4 + int(l4[12]>>4)*4
		flags := l4[13]
		h.joins = h.len < len(p)
		h.open = h.joins && flags&^ece == ack && l4[12]&0xf == 0
		h.closes = flags&(psh|fin) != 0
	case h.proto == packet.UDP && len(l4) >= udpLen:
		h.len = h.l4 + udpLen
		h.joins = int(binary.BigEndian.Uint16(l4[4:])) == len(l4) && h.len < len(p) && [2]byte(l4[checksumInUDP:]) != [2]byte{}
		h.open = h.joins
	default:
		return header{}
	}
	return h
}

// close closes the groups that packets behind one that has no part in merging must not join: those of its flow, or
// all if its ports are not known, as those of a later fragment.
func (m *Merger) close(p []byte) {
	if len(p) >= packet.IPv4Len && p[0]>>4 == 4 {
		ip, l4 := (*packet.IPv4)(p), int(p[0]&0xf)*4
		if proto := ip.Protocol(); proto != packet.TCP && proto != packet.UDP {
			return
		}
		if laterFragment := binary.BigEndian.Uint16(p[6:])&0x1fff != 0; !laterFragment && l4 >= packet.IPv4Len && len(p) >= l4+4 {
			m.open[slotOf(p, l4)] = -1
			return
		}
	} else if len(p) >= packet.IPv6Len && (*packet.IPv6)(p).NextHeader() == packet.ICMPv6 {
		return
	}
	for slot := range m.open {
		m.open[slot] = -1
	}
}

// sameIP reports whether the IP header of b is that of segment n of a packet with the header a.
func sameIP(a, b []byte, n int) bool {
	if a[0]>>4 == 6 { // version, traffic class and flow label; hop limit; addresses
		return [4]byte(a) == [4]byte(b) && a[7] == b[7] && [32]byte(a[8:]) == [32]byte(b[8:])
	}
	id := binary.BigEndian.Uint16(a[4:]) + uint16(n)
	return [2]byte(a) == [2]byte(b) && id == binary.BigEndian.Uint16(b[4:]) && [4]byte(a[6:]) == [4]byte(b[6:]) && [8]byte(a[12:]) == [8]byte(b[12:])
}

// sameTCP reports whether a segment with the TCP header b can follow one with the header a, except for the
// sequence number: ports, acknowledgment, window, urgent pointer and options are equal, and so are the flags
// but PSH and FIN.
func sameTCP(a, b []byte) bool {
	return [4]byte(a) == [4]byte(b) && [5]byte(a[8:]) == [5]byte(b[8:]) && a[13] == b[13]&^(psh|fin) &&
		[2]byte(a[14:]) == [2]byte(b[14:]) && bytes.Equal(a[18:], b[18:])
}

// slotOf hashes the flow of a packet.
func slotOf(p []byte, l4 int) uint32 {
	h := binary.BigEndian.Uint32(p[l4:])
	for a := addresses(p); len(a) >= 4; a = a[4:] {
		h = (h ^ binary.BigEndian.Uint32(a)) * 0x9e3779b1
	}
	return h >> 26 % openFlows
}

// Finish makes the first packet of a group of several the header of the merged packet, whose payload is that
// of all packets of the group, and returns its description. last is the last packet of the group.
func Finish(first, last []byte, g *Group) Header {
	h := parse(first)
	size := g.Bytes
	if first[0]>>4 == 4 {
		binary.BigEndian.PutUint16(first[2:], uint16(size))
		first[10], first[11] = 0, 0
		binary.BigEndian.PutUint16(first[10:], packet.Checksum(first[:packet.IPv4Len]))
	} else {
		binary.BigEndian.PutUint16(first[4:], uint16(size-packet.IPv6Len))
	}
	d := Header{Flags: NeedsChecksum, HeaderLen: uint16(h.len), SegmentSize: uint16(g.payload), ChecksumStart: uint16(h.l4)}
	l4 := first[h.l4:]
	if h.proto == packet.UDP {
		d.Type, d.ChecksumOffset = UDP, checksumInUDP
		binary.BigEndian.PutUint16(l4[4:], uint16(size-h.l4))
	} else {
		d.Type, d.ChecksumOffset = TCP4, checksumInTCP
		if first[0]>>4 == 6 {
			d.Type = TCP6
		}
		l4[13] |= last[h.l4+13] & (psh | fin)
	}
	binary.BigEndian.PutUint16(l4[d.ChecksumOffset:], pseudoSum(first, h.proto, size-h.l4))
	return d
}

// PayloadAt returns the offset of the payload in the packets of a group of several.
func (h Header) PayloadAt() int { return int(h.HeaderLen) }
