package differential

import "encoding/binary"

// six generates an IPv6 probe.
func (m *Maker) six(p *Probe) {
	src, dst, ttl := source6(p.side, p.id), m.address(plain6), byte(64)
	if p.side != lanSide {
		dst = m.address(back6)
	}
	if m.one(6) {
		ttl = pick[byte](m, 0, 1, 1, 2, 255)
	}
	if m.one(6) {
		dst = m.address(pick(m, special6, special6, martian6, m.own6, back6))
	}
	if m.one(12) {
		src = m.address(pick(m, martian6, otherwise, own6))
	}
	size := m.IntN(64)
	switch m.IntN(8) {
	case 0:
		size = m.IntN(1372)
	case 1:
		size = 1300 - 68 + m.IntN(40)
	}
	proto := pick[byte](m, 17, 17, 17, 6, 6, 58, 58, 50, 59, 132, 253)
	first, chain := proto, []byte(nil)
	if m.one(4) {
		first, chain = m.chain(proto)
	}
	p.ipv6Of(src, dst, ttl, first, chain, proto, size+16)
	b := p.packet()
	l4 := b[40+len(chain):]
	if proto == 58 && m.one(2) {
		l4[0], l4[1] = pick[byte](m, 1, 2, 3, 4, 99, 127, 128, 129, 132, 133, 134, 135, 136, 137, 138, 200), byte(m.IntN(3))
		p.finish(l4, 2, 58, b[8:40])
	}
	if m.one(3) {
		b[0], b[1], b[2], b[3] = 0x60|byte(m.IntN(16)), byte(m.Uint32()), byte(m.Uint32()), byte(m.Uint32())
	}
	if m.one(24) {
		m.spoil(l4, proto, b[8:40])
	}
	if m.one(16) {
		m.breakIPv6(p)
	}
}

// chain returns extension headers before one of type proto.
func (m *Maker) chain(proto byte) (first byte, chain []byte) {
	n := 1 + m.IntN(3)
	if m.one(12) {
		n = 7 + m.IntN(4)
	}
	for first = proto; n > 0; n-- {
		kind := pick[byte](m, 0, 43, 44, 51, 60, 60, 135, 139)
		if kind == 0 && n > 1 {
			kind = 60
		}
		h := []byte{first, 0, 1, 4, 0, 0, 0, 0}
		switch kind {
		case 0, 60:
			h = append([]byte{first, 0}, pick(m, []byte{1, 4, 0, 0, 0, 0}, []byte{5, 2, 0, 0, 1, 0}, []byte{0x1e, 4, 1, 2, 3, 4}, []byte{0x5e, 4, 1, 2, 3, 4},
				[]byte{0x9e, 4, 1, 2, 3, 4}, []byte{0xde, 4, 1, 2, 3, 4}, []byte{0, 0, 0, 0, 0, 0}, []byte{1, 4, 9, 9, 9, 9}, []byte{0x1e, 40, 1, 2, 3, 4})...)
		case 43:
			h[2], h[3] = pick[byte](m, 0, 0, 2, 3, 4, 253), byte(m.IntN(3))
		case 44:
			binary.BigEndian.PutUint16(h[2:], pick[uint16](m, 0, 1, 8, 9, 0x40, 0xfff8, 6))
			binary.BigEndian.PutUint32(h[4:], m.Uint32())
		case 51:
			h = append(h, 0, 0, 0, 1)
			h[1] = 1
		}
		if m.one(24) && kind != 44 { // broken
			h[1] = byte(m.Uint32())
		}
		first, chain = kind, append(h, chain...)
	}
	return first, chain
}

// breakIPv6 makes a packet invalid.
func (m *Maker) breakIPv6(p *Probe) {
	b := p.packet()
	switch m.IntN(6) {
	case 0:
		b[4], b[5] = byte(m.IntN(6)), byte(m.Uint32())
	case 1:
		b[4], b[5] = 0, byte(m.IntN(2)*m.IntN(50))
	case 2:
		b[0] = byte(m.Uint32())
	case 3:
		p.frame = p.frame[:14+m.IntN(len(b)+1)]
	case 4:
		b[6] = byte(m.Uint32())
	case 5:
		b[8+m.IntN(32)] = byte(m.Uint32())
	}
}
