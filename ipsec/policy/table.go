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
// Addresses are in host byte order, and a port is NoPort if the packet has none to show.
// It allocates nothing.
func (t *Table) LookupIPv4(src, dst uint32, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := flow{ipv4Key(src), ipv4Key(dst), uint32(protocol), sport, dport}
	return f.lookup(t.words, t.words[ipv4Root], 1)
}

// LookupIPv6 is LookupIPv4 for addresses in network byte order.
func (t *Table) LookupIPv6(src, dst *[16]byte, protocol uint8, sport, dport uint32) (policy int32, v Verdict) {
	f := flow{ipv6Key(src), ipv6Key(dst), uint32(protocol), sport, dport}
	return f.lookup(t.words, t.words[ipv6Root], 4)
}

type flow struct {
	src, dst     key
	protocol     uint32
	sport, dport uint32
}

// lookup goes through the destinations from the longest that covers the flow's to
// shorter ones, and through the sources of each, while they have lower numbers than the
// policy found.
func (f *flow) lookup(words []uint32, trie, addressWords uint32) (int32, Verdict) {
	found := uint32(1<<32 - 1)
	var v Verdict
	for d := find(words, trie, f.dst, addressWords); d != 0 && words[d+lowest] < found; d = words[d+more] {
		s := find(words, words[d+address+addressWords], f.src, addressWords)
		for ; s != 0 && words[s+lowest] < found; s = words[s+more] {
			for at := s + address + addressWords; ; at += policyWords {
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

// matches reports whether a flow is of a policy's protocol and ports.
func (f *flow) matches(p []uint32) bool {
	protocol := p[1] & 0xff
	return (protocol == 0 || protocol == f.protocol) &&
		(p[1]&anySrcPort != 0 || f.sport-p[2]&0xffff <= p[2]>>16-p[2]&0xffff) &&
		(p[1]&anyDstPort != 0 || f.dport-p[3]&0xffff <= p[3]>>16-p[3]&0xffff)
}

// find returns the record of a trie with the longest prefix that covers a key, 0 for none.
func find(words []uint32, trie uint32, k key, addressWords uint32) uint32 {
	for trie&node != 0 {
		trie = words[trie&slotsMask*slotsUnit+k.slot(trie>>positionAt&127, trie>>strideAt&15+1)]
	}
	for trie != 0 {
		r := words[trie : trie+address+4]
		o := key{hi: uint64(r[address]) << 32}
		if addressWords == 4 {
			o = key{o.hi | uint64(r[address+1]), uint64(r[address+2])<<32 | uint64(r[address+3])}
		}
		if !k.differs(o, r[0]>>bitsAt) {
			break
		}
		trie = r[0] & parentMask
	}
	return trie
}
