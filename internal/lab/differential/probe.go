package differential

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/internal/testutil"
)

// Probe is a packet for both routers.
type Probe struct {
	id    uint32
	side  int    // that it is sent from
	flow  uint16 // source port, 0: by id
	frame []byte
}

// Frame returns the packet with its Ethernet header.
func (p *Probe) Frame() []byte { return p.frame }

func (p *Probe) packet() []byte { return p.frame[14:] }

// payload returns n bytes of tags, each followed by eight counting bytes.
func (p *Probe) payload(n int) []byte {
	b := make([]byte, 0, n+16)
	for i := uint64(0); len(b) < n; i++ {
		b = binary.BigEndian.AppendUint32(b, magic)
		b = binary.BigEndian.AppendUint32(b, p.id)
		b = binary.BigEndian.AppendUint64(b, i*0x0101010101)
	}
	return b[:n]
}

func (p *Probe) link(etherType uint16, packet []byte) {
	p.frame = append(append(bytes.Clone(routerMAC(p.side)), hostMAC(p.side)...), byte(etherType>>8), byte(etherType))
	p.frame = append(p.frame, packet...)
}

// segment returns a transport header and a payload with a correct checksum.
func (p *Probe) segment(proto byte, size int, addrs []byte) []byte {
	var b []byte
	at := -1
	port := cmp.Or(p.flow, uint16(p.id))
	switch proto {
	case 6:
		b = []byte{byte(port >> 8), byte(port), 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 0, 0, 0}
		at = 16
	case 17:
		b = []byte{byte(port >> 8), byte(port) | 1, 0x82, 0x9a, byte((size + 8) >> 8), byte(size + 8), 0, 0}
		at = 6
	case 1:
		b = []byte{8, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 1}
		at = 2
	case 58:
		b = []byte{128, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 1}
		at = 2
	}
	b = append(b, p.payload(size)...)
	p.finish(b, at, proto, addrs)
	return b
}

// finish computes an L4 checksum.
func (p *Probe) finish(b []byte, at int, proto byte, addrs []byte) {
	if at < 0 || at+2 > len(b) {
		return
	}
	b[at], b[at+1] = 0, 0
	if proto != 1 {
		pseudo := append(bytes.Clone(addrs), 0, proto, byte(len(b)>>8), byte(len(b)))
		binary.BigEndian.PutUint16(b[at:], ^testutil.Sum(append(pseudo, b...)))
	} else {
		binary.BigEndian.PutUint16(b[at:], ^testutil.Sum(b))
	}
}

// ipv4 makes the probe a plain packet.
func (p *Probe) ipv4(src, dst netip.Addr, ttl, proto byte) { p.ipv4Of(src, dst, ttl, proto, 32) }

func (p *Probe) ipv4Of(src, dst netip.Addr, ttl, proto byte, size int) {
	addrs := append(src.AsSlice(), dst.AsSlice()...)
	l4 := p.segment(proto, size, addrs)
	h := []byte{0x45, 0, 0, 0, byte(p.id >> 8), byte(p.id), 0, 0, ttl, proto, 0, 0}
	h = append(h, addrs...)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(l4)))
	binary.BigEndian.PutUint16(h[10:], ^testutil.Sum(h))
	p.link(0x0800, append(h, l4...))
}

// ipv6Of makes the probe a packet with extension headers.
func (p *Probe) ipv6Of(src, dst netip.Addr, ttl byte, first byte, chain []byte, proto byte, size int) {
	addrs := append(src.AsSlice(), dst.AsSlice()...)
	l4 := p.segment(proto, size, addrs)
	h := []byte{0x60, 0, 0, 0, 0, 0, first, ttl}
	h = append(append(h, addrs...), chain...)
	binary.BigEndian.PutUint16(h[4:], uint16(len(chain)+len(l4)))
	p.link(0x86dd, append(h, l4...))
}

// arp makes the probe an ARP request for an address.
func (p *Probe) arp(who netip.Addr) {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, hostMAC(p.side)...)
	b = append(append(b, side4(p.side, 2).AsSlice()...), 0, 0, 0, 0, 0, 0)
	p.link(0x0806, append(b, who.AsSlice()...))
	copy(p.frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
}

// known reports whether the frames that a probe causes can be attributed to it. Truncated or
// fragmented probes have their own sources.
func (p *Probe) known() bool {
	b, end := p.packet(), len(p.frame)-14
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		if end = min(end, int(binary.BigEndian.Uint16(b[2:]))); end > narMTU {
			end = 20 // of a last piece little is left but the header
		}
	case len(b) >= 40 && b[0]>>4 == 6:
		end = min(end, 40+int(binary.BigEndian.Uint16(b[4:])))
	}
	id, is := tagOf(p.frame[:14+end])
	return !is && end < 20 || is && id == p.id // nothing comes of half a header
}

// fix4 updates a header checksum.
func fix4(b []byte) {
	n := min(len(b), int(b[0]&15)*4)
	if n >= 20 {
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^testutil.Sum(b[:n]))
	}
}

// source4 and source6 return an address behind a side that no other packet comes from. Linux limits
// errors by their destination where no setting of a namespace reaches.
func source4(side int, id uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(32*(side+1)) + byte(id>>16)&31, byte(id >> 8), byte(id)})
}

func source6(side int, id uint32) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: byte(0x32 + side), 12: byte(id >> 24), 13: byte(id >> 16), 14: byte(id >> 8), 15: byte(id)})
}

// magic begins each tag: eight bytes that identify packets of the test, repeated in the payload.
const magic = 0xc0f7a9d5

// tagOf returns the number of the packet that a frame is, quotes, or is a fragment of. Packets without
// a tag are identified by their source.
func tagOf(frame []byte) (id uint32, is bool) {
	for at := 14; at+8 <= len(frame); at++ {
		if frame[at] == magic>>24 && binary.BigEndian.Uint32(frame[at:]) == magic {
			return binary.BigEndian.Uint32(frame[at+4:]), true
		}
	}
	if b := frame[14:]; len(b) >= 20 && b[0]>>4 == 4 {
		for _, a := range [][]byte{b[12:16], b[16:20]} {
			if a[0] == 10 && a[1] >= 32 && a[1] < 128 {
				return binary.BigEndian.Uint32(a) & (1<<21 - 1), true
			}
		}
	} else if len(b) >= 40 && b[0]>>4 == 6 {
		for _, a := range [][]byte{b[8:24], b[24:40]} {
			if a[0] == 0xfd && a[1] >= 0x32 && a[1] < 0x35 {
				return binary.BigEndian.Uint32(a[12:]), true
			}
		}
	}
	return 0, false
}
