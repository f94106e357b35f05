package policy

import "math/bits"

// trie appends the nodes for sorted records, and returns the root. Addresses that no record covers
// lead to the record above, 0 for none.
//
// A node has up to twice as many slots as records, which keeps tries shallow and small. It takes at
// most 4 words per record, and as each takes at least 3 bits, a walk has at most 43 nodes.
func (b *builder) trie(rs []record, above uint32) (uint32, error) {
	for len(rs) > 0 && rs[0].covers(rs[len(rs)-1].prefix) {
		above = rs[0].at
		rs = rs[1:]
	}
	if len(rs) == 0 {
		return above, nil
	}
	if err := b.align(slotsUnit); err != nil {
		return 0, err
	}
	// The first record does not cover the last, so none covers all: all are longer than their common
	// prefix.
	position := rs[0].common(rs[len(rs)-1].key)
	stride := strideOf(rs, position)
	first := len(b.words)
	for range 1 << stride {
		b.words = append(b.words, above)
	}
	for end := position + stride; len(rs) > 0; {
		at := first + int(rs[0].slot(position, stride))
		if rs[0].bits <= end {
			for i := range 1 << (end - rs[0].bits) {
				b.words[at+i] = rs[0].at
			}
			rs = rs[1:]
			continue
		}
		n := 1
		for n < len(rs) && first+int(rs[n].slot(position, stride)) == at {
			n++
		}
		below, err := b.trie(rs[:n], b.words[at])
		if err != nil {
			return 0, err
		}
		b.words[at] = below
		rs = rs[n:]
	}
	return node | position<<positionAt | (stride-1)<<strideAt | uint32(first/slotsUnit), nil
}

// strideOf returns the number of bits from position that distinguish records, at most to the end of
// the longest.
func strideOf(rs []record, position uint32) uint32 {
	longest := uint32(0)
	for i := range rs {
		longest = max(longest, rs[i].bits)
	}
	stride := min(uint32(bits.Len(uint(len(rs)))), longest-position, maxStride)
	return max(stride, minStride)
}
