package fragment

import "math/bits"

// bitmap has a bit for each unit of the longest datagram, and one more.
type bitmap [(maxPacket/unit+1)/64 + 1]uint64

// mask returns the bits of word w for units from <= i < to.
func mask(w, from, to int) uint64 {
	from, to = max(from-w*64, 0), min(to-w*64, 64)
	return ^uint64(0) << from &^ (^uint64(0) << to)
}

// set sets the bits from <= i < to.
func (b *bitmap) set(from, to int) {
	for w := from / 64; w*64 < to; w++ {
		b[w] |= mask(w, from, to)
	}
}

// count returns the number of set bits from <= i < to.
func (b *bitmap) count(from, to int) (n int) {
	for w := from / 64; w*64 < to; w++ {
		n += bits.OnesCount64(b[w] & mask(w, from, to))
	}
	return n
}

func (b *bitmap) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }
