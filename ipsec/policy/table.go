package policy

import "github.com/warproute/warproute/internal/prefetch"

// Table is a compiled list of policies. It is immutable: a change builds another one and swaps a
// pointer. Any number of goroutines may read it.
type Table struct {
	words    []uint32
	roots    [2]root // by family
	keyMasks [2]keyMask
}

// root is the trie of a family's destinations and their common prefix: keys agree where mask has ones.
type root struct {
	trie      uint32
	key, mask key
}

// Words returns the table as words, for a device. It must not be changed.
func (t *Table) Words() []uint32 { return t.words }

// None is the policy of a flow that no policy matches.
const None int32 = -1

// LookupIPv4 returns the index of the first policy that matches a flow, and its verdict; None and
// Discard without a match. Addresses are in host byte order; a port is NoPort if the protocol has
// none, HiddenPort in a fragment. It does not allocate.
func (t *Table) LookupIPv4(src, dst uint32, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := IPv4Flow(src, dst, protocol, sport, dport)
	return t.Lookup(&f)
}

// LookupIPv6 is LookupIPv4 with addresses in network byte order.
func (t *Table) LookupIPv6(src, dst *[16]byte, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := IPv6Flow(src, dst, protocol, sport, dport)
	return t.Lookup(&f)
}

// Lookup is LookupIPv4 or LookupIPv6, by the flow's family.
func (t *Table) Lookup(f *Flow) (policy int32, v Verdict) {
	policy, v, _ = t.decide(f, t.find(t.destinations(f), &f.dst, f.wide))
	return policy, v
}

// destinations returns the trie of a flow's family, 0 if no policy covers its destination.
func (t *Table) destinations(f *Flow) uint32 {
	r := &t.roots[ipv4Root]
	if f.wide {
		r = &t.roots[ipv6Root]
	}
	if (f.dst.hi^r.key.hi)&r.mask.hi|(f.dst.lo^r.key.lo)&r.mask.lo != 0 {
		return 0
	}
	return r.trie
}

// atOnce is the number of flows of a batch that are looked up together.
const atOnce = 64

// LookupBatch is Lookup for each flow, into policies and verdicts, which are at least as long as
// flows. It does not allocate.
//
// It searches the destinations of all flows before any source, and their tries one step at a time, so
// that the cache misses of flows overlap.
func (t *Table) LookupBatch(policies []int32, verdicts []Verdict, flows []Flow) {
	policies, verdicts = policies[:len(flows)], verdicts[:len(flows)]
	for len(flows) > 0 {
		n := min(len(flows), atOnce)
		t.lookupSome(policies[:n], verdicts[:n], flows[:n])
		policies, verdicts, flows = policies[n:], verdicts[n:], flows[n:]
	}
}

func (t *Table) lookupSome(policies []int32, verdicts []Verdict, flows []Flow) {
	var at [atOnce]uint32
	t.walk(&at, flows)
	var records [atOnce]uint32 // in bytes
	for i := range flows {
		records[uint(i)%atOnce] = at[uint(i)%atOnce] * wordBytes
	}
	prefetch.ReadAt(t.words, records[:len(flows)])
	for i := range flows {
		policies[i], verdicts[i] = None, 0
		if f, d := &flows[i], at[uint(i)%atOnce]; d != 0 {
			policies[i], verdicts[i], _ = t.decide(f, t.cover(d, &f.dst, f.wide))
		}
	}
}

// walk walks the tries of destinations to the record at the end of each flow's walk.
func (t *Table) walk(at *[atOnce]uint32, flows []Flow) {
	// The flows that are at a node. They are stored before the check, because a branch would often be
	// mispredicted.
	var walking [atOnce]uint8
	n := uint(0)
	for i := range flows {
		trie := t.destinations(&flows[i])
		at[uint(i)%atOnce], walking[n%atOnce] = trie, uint8(i)
		n += uint(trie >> nodeBit)
	}
	for n > 0 {
		still := uint(0)
		for _, i := range walking[:n] {
			next := t.step(at[i%atOnce], &flows[i].dst)
			at[i%atOnce], walking[still%atOnce] = next, i
			still += uint(next >> nodeBit)
		}
		n = still
	}
}

// decide looks up a flow, given the longest destination that covers its address, 0 for none. It
// continues with shorter ones, and with the sources of each, while they have lower numbers than the
// policy found. It reports whether the result depends on addresses alone.
func (t *Table) decide(f *Flow, d uint32) (policy int32, v Verdict, byAddress bool) {
	words, found := t.words, uint32(1<<32-1)
	byAddress = true
	lists := uint32(address + 1) // offset in a record behind its address
	if f.wide {
		lists = address + 4
	}
	for d != 0 {
		destination := (*head)(words[d:])
		if destination[lowest] >= found {
			break
		}
		s := t.find(destination[lists%8], &f.src, f.wide)
		for s != 0 {
			source := (*head)(words[s:])
			if source[lowest] >= found {
				break
			}
			for at := s + lists; ; at += policyWords {
				p := (*entry)(words[at:])
				number := p[0] &^ lastPolicy
				if number >= found {
					break
				}
				any := p.any()
				byAddress = byAddress && any
				if any || f.matches(p) {
					found, v = number, Verdict(p[1]>>verdictAt)
					break
				}
				if p[0]&lastPolicy != 0 {
					break
				}
			}
			s = source[more]
		}
		d = destination[more]
	}
	return int32(found), v, byAddress
}

// find returns the record of a trie with the longest prefix that covers a key, 0 for none.
func (t *Table) find(trie uint32, k *key, wide bool) uint32 {
	for trie&node != 0 {
		trie = t.step(trie, k)
	}
	return t.cover(trie, k, wide)
}

// step returns a node's slot for a key.
func (t *Table) step(trie uint32, k *key) uint32 {
	return t.words[trie&slotsMask*slotsUnit+k.slot(trie>>positionAt&127, trie>>strideAt&15+1)]
}

// cover returns the first record that covers a key, of the record at the end of a walk and its
// parents; 0 for none.
func (t *Table) cover(at uint32, k *key, wide bool) uint32 {
	for at != 0 {
		r := (*head)(t.words[at:])
		if r.covers(k, wide) {
			break
		}
		at = r[0] & parentMask
	}
	return at
}
