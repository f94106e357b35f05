package policy

import "math/bits"

// Cache is what one worker remembers of its lookups in a table: what a flow's addresses alone
// decided, protocol and ports left aside, between networks of the length of the longest prefixes
// that policies have. So all flows of a tunnel share a place, and the answers are the table's.
//
// With policies of single hosts, or of protocols and ports in front of the others, there may be
// more to remember than there is room for, or nothing. Then nothing is looked for most of the time.
type Cache struct {
	of   *Table // whose answers these are
	sets *[sets]set
	rest int // batches for which nothing is looked for
}

const (
	setsBits    = 11
	sets        = 1 << setsBits
	restBatches = 15
)

// set is a cache line: the answers that may be at a place, the newer first.
type set [2]answer

// answer is that for flows between two networks.
type answer struct {
	src, dst uint64 // as much of the keys as counts
	policy   int32
	verdict  Verdict
	family   uint32 // 1 more than the root's; 0: none
	_        uint32
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{sets: new([sets]set)} }

// grain is as much of a flow's keys as policies of its family tell apart, if that is in the
// upper halves.
type grain struct {
	src, dst uint64
	coarse   bool
}

// grainOf returns that of policies.
func grainOf(policies []Policy, numbers []int32) grain {
	src, dst := uint32(0), uint32(0)
	for _, n := range numbers {
		src, dst = max(src, prefixOf(policies[n].Src).bits), max(dst, prefixOf(policies[n].Dst).bits)
	}
	return grain{mask(src).hi, mask(dst).hi, max(src, dst) <= 64}
}

// LookupBatch does what the table's does.
func (c *Cache) LookupBatch(t *Table, policies []int32, verdicts []Verdict, flows []Flow) {
	if c.of != t { // a table that is referred to is in no other's place
		c.of, c.rest = t, 0
		clear(c.sets[:])
	}
	policies, verdicts = policies[:len(flows)], verdicts[:len(flows)]
	for len(flows) > 0 {
		n := min(len(flows), atOnce)
		if c.rest > 0 {
			c.rest--
			t.lookupSome(policies[:n], verdicts[:n], flows[:n])
		} else {
			c.lookupSome(t, policies[:n], verdicts[:n], flows[:n])
		}
		policies, verdicts, flows = policies[n:], verdicts[n:], flows[n:]
	}
}

func (c *Cache) lookupSome(t *Table, policies []int32, verdicts []Verdict, flows []Flow) {
	known, unknown := 0, 0
	for i := range flows {
		f := &flows[i]
		policies[i], verdicts[i] = None, 0
		trie := t.destinations(f)
		if trie == 0 {
			continue
		}
		src, dst, family := t.between(f)
		s := &c.sets[placeOf(src, dst)]
		a := &s[0]
		if a.src != src || a.dst != dst || a.family != family {
			a = &s[1]
		}
		if a.src == src && a.dst == dst && a.family == family {
			policies[i], verdicts[i] = a.policy, a.verdict
			known++
			continue
		}
		unknown++
		var byAddress bool
		policies[i], verdicts[i], byAddress = t.decide(f, t.find(trie, &f.dst, f.wide))
		if byAddress && t.grains[family-1].coarse {
			s[1] = s[0]
			s[0] = answer{src, dst, policies[i], verdicts[i], family, 0}
		}
	}
	if unknown > known {
		c.rest = restBatches
	}
}

// between returns as much of a flow's addresses as counts, and its family.
func (t *Table) between(f *Flow) (src, dst uint64, family uint32) {
	if f.wide {
		family = ipv6Root
	}
	g := &t.grains[family]
	return f.src.hi & g.src, f.dst.hi & g.dst, family + 1
}

// placeOf is where the answer for two networks would be.
func placeOf(src, dst uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	return (src + bits.RotateLeft64(dst, 32)) * golden >> (64 - setsBits)
}
