package differential

import (
	"bytes"
	"encoding/binary"

	"github.com/warproute/warproute/internal/testutil"
)

// four generates an IPv4 probe.
func (m *Maker) four(p *Probe) {
	src, dst, ttl := source4(p.side, p.id), m.address(plain4), byte(64)
	if p.side != lanSide {
		dst = m.address(back4)
	}
	if m.one(6) {
		ttl = pick[byte](m, 0, 1, 1, 2, 255)
	}
	if m.one(6) {
		dst = m.address(pick(m, special4, special4, martian4, own4, back4))
	}
	if m.one(12) {
		src = m.address(pick(m, martian4, elsewhere, own4))
	}
	size := m.IntN(64)
	switch m.IntN(8) {
	case 0:
		size = m.IntN(1452)
	case 1:
		size = 1300 - 48 + m.IntN(40)
	}
	proto := pick[byte](m, 17, 17, 17, 6, 6, 1, 1, byte(m.Uint32()))
	if proto == 58 {
		proto = 59
	}
	p.ipv4Of(src, dst, ttl, proto, size+16)
	b := p.packet()
	if proto == 1 && m.one(2) { // another message than an echo request
		b[20], b[21] = pick[byte](m, 0, 3, 4, 5, 8, 9, 10, 11, 12, 13, 17, 42, 99), byte(m.IntN(3))
		p.finish(b[20:], 2, 1, nil)
	}
	if m.one(3) {
		b[1] = byte(m.Uint32())
	}
	if m.one(3) {
		b[6] |= 0x40
	}
	if m.one(10) {
		binary.BigEndian.PutUint16(b[6:], pick[uint16](m, 0x2000, 1, 2, 0x2001, 0x2010, 0x3fff, 0x1fff, 0x8000, 0x6000, 0x4007, 0x1ff0))
	}
	if m.one(24) && proto != 1 { // L4 checksums: wrong, none, unfinished
		m.spoil(b[20:], proto, b[12:20])
	}
	if m.one(20) {
		b = m.options(b)
		p.link(0x0800, b)
		b = p.packet()
	}
	fix4(b)
	if m.one(16) {
		m.breakIPv4(p)
	}
}

// spoil changes the checksum of a TCP or UDP segment.
func (m *Maker) spoil(l4 []byte, proto byte, addrs []byte) {
	at := map[byte]int{6: 16, 17: 6}[proto]
	if at == 0 {
		return
	}
	switch m.IntN(3) {
	case 0:
		binary.BigEndian.PutUint16(l4[at:], uint16(m.Uint32()))
	case 1:
		binary.BigEndian.PutUint16(l4[at:], 0)
	case 2:
		pseudo := append(bytes.Clone(addrs), 0, proto, byte(len(l4)>>8), byte(len(l4)))
		binary.BigEndian.PutUint16(l4[at:], testutil.Sum(pseudo))
	}
}

// options puts options behind a header.
func (m *Maker) options(b []byte) []byte {
	o := pick(m,
		[]byte{1, 1, 1, 0}, []byte{7, 7, 4, 0, 0, 0, 0, 0}, []byte{148, 4, 0, 0},
		[]byte{131, 7, 4, 10, 20, 0, 9, 0}, []byte{137, 7, 4, 10, 20, 0, 9, 0}, []byte{0x99, 4, 0, 0}, []byte{7, 3, 9, 0}, []byte{0, 0, 0, 0})
	out := append(append(bytes.Clone(b[:20]), o...), b[20:]...)
	out[0] = 0x40 | byte(len(out[:20])+len(o))/4
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	return out
}

// breakIPv4 makes a packet invalid.
func (m *Maker) breakIPv4(p *Probe) {
	b := p.packet()
	switch m.IntN(7) {
	case 0:
		b[10+m.IntN(2)] ^= 1 << m.IntN(8)
	case 1:
		b[2], b[3] = byte(m.IntN(6)), byte(m.Uint32())
		fix4(b)
	case 2:
		b[0] = byte(m.Uint32())
		fix4(b)
	case 3:
		p.frame = p.frame[:14+m.IntN(len(b)+1)]
	case 4:
		b[m.IntN(12)] = byte(m.Uint32())
		fix4(b)
	case 5:
		b[m.IntN(20)] ^= 1 << m.IntN(8)
	case 6:
		b[12+m.IntN(8)] = byte(m.Uint32())
		fix4(b)
	}
}
