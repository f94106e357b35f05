package schedule

import "encoding/binary"

// Element is an element of GHASH's field (NIST SP 800-38D section 6.3): the highest
// bit of High is the coefficient of x⁰, the lowest bit of Low that of x¹²⁷.
type Element struct{ High, Low uint64 }

// times multiplies by x: x¹²⁸ = x⁷ + x² + x + 1.
func (e Element) times() Element {
	return Element{e.High>>1 ^ -(e.Low&1)&(0xe1<<56), e.Low>>1 | e.High<<63}
}

// Over divides by x.
func (e Element) Over() Element {
	carry := e.High >> 63 // x⁰, from x¹²⁷ + x⁶ + x + 1
	return Element{(e.High^-carry&(0xe1<<56))<<1 | e.Low>>63, e.Low<<1 | carry}
}

// Product multiplies two elements in constant time.
func Product(a, b Element) (sum Element) {
	for i := range 128 {
		word := b.High
		if i >= 64 {
			word = b.Low
		}
		bit := -(word >> (63 - i%64) & 1)
		sum.High ^= a.High & bit
		sum.Low ^= a.Low & bit
		a = a.times()
	}
	return sum
}

// Powers writes the powers of H, each divided by x as bit-reversed multiplication needs them: H to
// to[0], H² to to[1], and so on. The first word of each holds the last bytes.
func Powers(to [][4]uint32, h *[16]byte) {
	base := Element{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])}
	power := base.Over()
	for i := range to {
		to[i] = [4]uint32{uint32(power.Low), uint32(power.Low >> 32), uint32(power.High), uint32(power.High >> 32)}
		power = Product(power, base)
	}
}
