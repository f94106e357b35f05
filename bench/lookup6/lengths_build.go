package lookup6

// lengthsBuilder makes the entries and ropes of a table of hashes.
type lengthsBuilder struct {
	entries []slot
	ropes   []rope
	known   map[rope]uint64 // the number of each
}

// below makes the entries by which the given spans are found, and returns the
// number of the rope that leads to them. The spans are in order.
func (b *lengthsBuilder) below(spans []*span) uint64 {
	var r rope
	for len(spans) > 0 {
		length := middle(spans)
		r |= 1 << (length - 1)
		var shorter []*span
		for len(spans) > 0 {
			if spans[0].bits < length {
				shorter, spans = append(shorter, spans[0]), spans[1:]
				continue
			}
			// All with these first bits, one of just this length, if any, in front.
			s := spans[0]
			e := slot{key: prefix(s.key, length), entry: uint64(length)<<lengthShift | uint64(s.within(length).answer())}
			if s.bits == length {
				spans = spans[1:]
			}
			n := 0
			for n < len(spans) && prefix(spans[n].key, length) == e.key {
				n++
			}
			e.entry |= b.below(spans[:n]) << ropeShift
			b.entries = append(b.entries, e)
			spans = spans[n:]
		}
		spans = shorter
	}
	number, ok := b.known[r]
	if !ok {
		number = uint64(len(b.ropes))
		b.known[r] = number
		b.ropes = append(b.ropes, r)
	}
	return number
}

// middle is the length that halves the spans, not the lengths: most routes are of
// few lengths, and are found the sooner.
func middle(spans []*span) int {
	var count [65]int
	for _, s := range spans {
		count[s.bits]++
	}
	length := 0
	for n := count[0]; 2*n <= len(spans); n += count[length] {
		length++
	}
	return length
}

// within returns s, or the longest span around it, that has at most so many bits, or nil.
func (s *span) within(bits int) *span {
	for s != nil && s.bits > bits {
		s = s.parent
	}
	return s
}
