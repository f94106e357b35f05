package device

import "encoding/binary"

// element is an element of GHASH's field (NIST SP 800-38D section 6.3): the highest
// bit of high is the coefficient of x⁰, the lowest bit of low that of x¹²⁷.
type element struct{ high, low uint64 }

// times multiplies by x: x¹²⁸ = x⁷ + x² + x + 1.
func (e element) times() element {
	return element{e.high>>1 ^ -(e.low&1)&(0xe1<<56), e.low>>1 | e.high<<63}
}

// over divides by x.
func (e element) over() element {
	carry := e.high >> 63 // x⁰, of which x¹²⁷ + x⁶ + x + 1 is made
	return element{(e.high^-carry&(0xe1<<56))<<1 | e.low>>63, e.low<<1 | carry}
}

// product multiplies two elements. The time it takes does not depend on them.
func product(a, b element) (sum element) {
	for i := range 128 {
		word := b.high
		if i >= 64 {
			word = b.low
		}
		bit := -(word >> (63 - i%64) & 1)
		sum.high ^= a.high & bit
		sum.low ^= a.low & bit
		a = a.times()
	}
	return sum
}

// powers writes the powers of H, each divided by x.
func powers(to *[MaxLanes][4]uint32, h *[16]byte) {
	base := element{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])}
	power := base.over()
	for i := range to {
		to[i] = [4]uint32{uint32(power.low), uint32(power.low >> 32), uint32(power.high), uint32(power.high >> 32)}
		power = product(power, base)
	}
}
