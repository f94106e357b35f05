package policy

// Table is a list of policies, built to be looked up. It is never changed: who
// wants other policies builds another and swaps a pointer. Any number of readers may use it.
type Table struct {
	words []uint32
}

// Words is the image, for a device. It must not be changed.
func (t *Table) Words() []uint32 { return t.words }

// None is the policy of a flow that no policy matches.
const None int32 = -1

// LookupIPv4 returns the first policy that matches a flow, by its place in the list
// that the table was built of, and what it says; None and discard if there is none.
// Addresses are in host byte order, and a port is NoPort if the packet has none, HiddenPort
// if it does not show it.
// It allocates nothing.
func (t *Table) LookupIPv4(src, dst uint32, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := IPv4Flow(src, dst, protocol, sport, dport)
	return t.Lookup(&f)
}

// LookupIPv6 is LookupIPv4 for addresses in network byte order.
func (t *Table) LookupIPv6(src, dst *[16]byte, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := IPv6Flow(src, dst, protocol, sport, dport)
	return t.Lookup(&f)
}

// Lookup looks a flow up as LookupIPv4 and LookupIPv6 do.
func (t *Table) Lookup(f *Flow) (policy int32, v Verdict) {
	root := ipv4Root
	if f.wide {
		root = ipv6Root
	}
	return t.decide(f, t.find(t.words[root], f.dst, f.wide))
}

// atOnce is how many flows of a batch are looked up together.
const atOnce = 64

// LookupBatch looks each flow up as LookupIPv4 and LookupIPv6 do, into policies and
// verdicts, which are at least as long as flows. It allocates nothing.
//
// The destinations of all flows are searched before the first source is, and their
// tries one step at a time, so that the cache misses of flows overlap.
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
	for i := range flows {
		root := ipv4Root
		if flows[i].wide {
			root = ipv6Root
		}
		at[i] = t.words[root]
	}
	for nodes := uint32(node); nodes&node != 0; {
		nodes = 0
		for i := range flows {
			if at[i]&node != 0 {
				at[i] = t.step(at[i], flows[i].dst)
				nodes |= at[i]
			}
		}
	}
	for i := range flows {
		at[i] = t.cover(at[i], flows[i].dst, flows[i].wide)
	}
	for i := range flows {
		policies[i], verdicts[i] = t.decide(&flows[i], at[i])
	}
}

// decide looks a flow up, given the longest destination that covers its address, 0 for
// none. It goes on to shorter ones, and through the sources of each, while they have lower
// numbers than the policy found.
func (t *Table) decide(f *Flow, d uint32) (int32, Verdict) {
	words, found, v := t.words, uint32(1<<32-1), Verdict(0)
	lists := uint32(address + 1) // where a record goes on behind its address
	if f.wide {
		lists = address + 4
	}
	for ; d != 0 && words[d+lowest] < found; d = words[d+more] {
		s := t.find(words[d+lists], f.src, f.wide)
		for ; s != 0 && words[s+lowest] < found; s = words[s+more] {
			for at := s + lists; ; at += policyWords {
				p := words[at : at+policyWords : at+policyWords]
				number := p[0] &^ lastPolicy
				if number >= found {
					break
				}
				if f.matches(p) {
					found, v = number, Verdict(p[1]>>verdictAt)
					break
				}
				if p[0]&lastPolicy != 0 {
					break
				}
			}
		}
	}
	return int32(found), v
}

// find returns the record of a trie with the longest prefix that covers a key, 0 for none.
func (t *Table) find(trie uint32, k key, wide bool) uint32 {
	for trie&node != 0 {
		trie = t.step(trie, k)
	}
	return t.cover(trie, k, wide)
}

// step returns what a node has for a key.
func (t *Table) step(trie uint32, k key) uint32 {
	return t.words[trie&slotsMask*slotsUnit+k.slot(trie>>positionAt&127, trie>>strideAt&15+1)]
}

// cover returns the first that covers a key of the record at which a walk ended and its
// parents, 0 for none.
func (t *Table) cover(at uint32, k key, wide bool) uint32 {
	for at != 0 {
		r := t.words[at : at+address+4]
		o := key{hi: uint64(r[address]) << 32}
		if wide {
			o = key{o.hi | uint64(r[address+1]), uint64(r[address+2])<<32 | uint64(r[address+3])}
		}
		if !k.differs(o, r[0]>>bitsAt) {
			break
		}
		at = r[0] & parentMask
	}
	return at
}
