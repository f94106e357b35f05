package policy

import "slices"

// record holds the policies of one prefix.
type record struct {
	prefix
	numbers []int32 // of its policies and of copies, in order
	parent  int     // longest covering prefix, or -1
	more    int     // longest covering prefix without copies here, or -1

	at     uint32 // index in the table
	lowest uint32
}

// records sorts policies by one of their prefixes, covering prefixes first.
func (b *builder) records(numbers []int32, of func(*Policy) prefix) []record {
	single := make([]record, len(numbers))
	for i, n := range numbers {
		single[i] = record{prefix: of(&b.policies[n]), numbers: numbers[i : i+1 : i+1]}
	}
	slices.SortStableFunc(single, func(x, y record) int { return x.compare(y.prefix) })
	rs := single[:0]
	for _, r := range single {
		if last := len(rs) - 1; last >= 0 && rs[last].prefix == r.prefix {
			rs[last].numbers = append(rs[last].numbers, r.numbers...)
		} else {
			rs = append(rs, r)
		}
	}
	for i := range rs {
		r := &rs[i]
		for r.parent = i - 1; r.parent >= 0 && !rs[r.parent].covers(r.prefix); {
			r.parent = rs[r.parent].parent
		}
		if r.more = r.parent; r.parent >= 0 {
			if above := &rs[r.parent]; len(above.numbers) <= b.copies {
				r.more = above.more
				r.numbers = merge(r.numbers, above.numbers)
			}
		}
	}
	return rs
}

// merge merges two ordered lists.
func merge(x, y []int32) []int32 {
	z := slices.Concat(x, y)
	slices.Sort(z)
	return z
}
