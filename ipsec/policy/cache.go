package policy

import "math/bits"

// Cache is a worker's cache of policy lookups that depend on addresses only, not on protocol or
// ports. Its keys are networks: addresses masked to the longest prefix length of any policy, so all
// flows of a tunnel share an entry. It returns the same results as the table.
//
// With policies for single hosts, or for protocols and ports, entries may not fit or not exist.
// After many misses the cache is not consulted for a while (back-off).
type Cache struct {
	of      *Table // the table of the entries
	sets    *[sets]set
	backOff int // batches for which the cache is not consulted
}

const (
	setsBits       = 11
	sets           = 1 << setsBits
	backOffBatches = 15
)

// set is a cache line of entries, the newer first.
type set [2]answer

// answer is the entry for flows between two networks.
type answer struct {
	src, dst uint64 // masked keys
	policy   int32
	verdict  Verdict
	family   uint32 // 1 plus the index of the root; 0: no entry
	_        uint32
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{sets: new([sets]set)} }

// keyMask is the mask for a flow's keys of a family: the bits that policies distinguish, if they are in
// the upper halves.
type keyMask struct {
	src, dst uint64
	coarse   bool
}

// keyMaskOf returns the key mask of policies.
func keyMaskOf(policies []Policy, numbers []int32) keyMask {
	src, dst := uint32(0), uint32(0)
	for _, n := range numbers {
		src, dst = max(src, prefixOf(policies[n].Src).bits), max(dst, prefixOf(policies[n].Dst).bits)
	}
	return keyMask{mask(src).hi, mask(dst).hi, max(src, dst) <= 64}
}

// LookupBatch is Table.LookupBatch through the cache.
func (c *Cache) LookupBatch(t *Table, policies []int32, verdicts []Verdict, flows []Flow) {
	if c.of != t { // the reference keeps another table from having the same address
		c.of, c.backOff = t, 0
		clear(c.sets[:])
	}
	policies, verdicts = policies[:len(flows)], verdicts[:len(flows)]
	for len(flows) > 0 {
		n := min(len(flows), atOnce)
		if c.backOff > 0 {
			c.backOff--
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
		if byAddress && t.keyMasks[family-1].coarse {
			s[1] = s[0]
			s[0] = answer{src, dst, policies[i], verdicts[i], family, 0}
		}
	}
	if unknown > known {
		c.backOff = backOffBatches
	}
}

// between returns a flow's masked addresses and its family.
func (t *Table) between(f *Flow) (src, dst uint64, family uint32) {
	if f.wide {
		family = ipv6Root
	}
	g := &t.keyMasks[family]
	return f.src.hi & g.src, f.dst.hi & g.dst, family + 1
}

// golden is 2^64 divided by the golden ratio, an odd number that spreads keys when they are multiplied by it.
const golden = 0x9e3779b97f4a7c15

// placeOf returns the set for two networks.
func placeOf(src, dst uint64) uint64 {
	return (src + bits.RotateLeft64(dst, 32)) * golden >> (64 - setsBits)
}
