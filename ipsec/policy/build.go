package policy

import (
	"errors"
	"fmt"
	"slices"
)

// copyLimits are tried in turn until the table fits copyRoom words. A record holds copies of the
// policies of a shorter prefix if there are no more than the limit. Tables whose copies would exceed
// a processor's caches are faster without them.
var copyLimits = []int{128, 32, 8}

const copyRoom = 1 << 19

// Build compiles an ordered list of policies. A lookup returns indexes into it, from 0. Policies of
// both families may be in one list.
//
// A table has at most 32 MiB. A policy takes 16 to 40 words, and never more than 400 (two records
// with alignment, and 43 nodes of 4 words in each trie), so any 20,000 policies fit, and usually ten
// times as many.
func Build(policies []Policy) (*Table, error) { return build(policies, maxWords) }

func build(policies []Policy, room int) (*Table, error) {
	for i := range policies {
		if err := policies[i].check(); err != nil {
			return nil, fmt.Errorf("policy %d, %v: %w", i, &policies[i], err)
		}
	}
	for _, copies := range copyLimits {
		if t, err := compile(policies, copies, min(room, copyRoom)); err == nil {
			return t, nil
		}
	}
	t, err := compile(policies, 0, room)
	if err != nil {
		return nil, fmt.Errorf("build a table of %d policies: %w than %d KiB; replace adjacent policies by one of a shorter prefix",
			len(policies), err, room*4>>10)
	}
	return t, nil
}

// builder builds the words of a table.
type builder struct {
	words    []uint32
	room     int // largest number of words
	policies []Policy
	copies   int // from copyLimits
	wide     bool
}

var errFull = errors.New("it takes more memory")

func compile(policies []Policy, copies, room int) (*Table, error) {
	t := &Table{}
	b := builder{words: make([]uint32, header), room: room, policies: policies, copies: copies}
	for family, wide := range []bool{ipv4Root: false, ipv6Root: true} {
		b.wide = wide
		var numbers []int32
		for i := range policies {
			if policies[i].Dst.Addr().Is4() != wide {
				numbers = append(numbers, int32(i))
			}
		}
		trie, err := b.destinations(numbers)
		if err != nil {
			return nil, err
		}
		b.words[family] = trie
		k, same := alike(policies, numbers)
		t.roots[family] = root{trie, k, same}
		t.keyMasks[family] = keyMaskOf(policies, numbers)
	}
	t.words = slices.Clip(b.words)
	return t, nil
}

// alike returns the common prefix of the destinations of policies: empty if there are none.
func alike(policies []Policy, numbers []int32) (k, same key) {
	var all prefix
	for i, n := range numbers {
		p := prefixOf(policies[n].Dst)
		if i == 0 {
			all = p
		}
		all.bits = min(all.bits, p.bits, all.common(p.key))
	}
	return all.key, mask(all.bits)
}

// destinations appends the destinations of policies with their sources, and returns their trie.
func (b *builder) destinations(numbers []int32) (trie uint32, err error) {
	rs := b.records(numbers, func(p *Policy) prefix { return prefixOf(p.Dst) })
	for i := range rs {
		// Usually a record, its only source and the policy share a cache line.
		if err := b.align(line); err != nil {
			return 0, err
		}
		b.append(&rs[i], rs)
		at := len(b.words)
		b.words = append(b.words, 0)
		if b.words[at], err = b.sources(rs[i].numbers); err != nil {
			return 0, err
		}
	}
	return b.trie(rs, 0)
}

// sources appends the sources of policies, and returns their trie.
func (b *builder) sources(numbers []int32) (trie uint32, err error) {
	rs := b.records(numbers, func(p *Policy) prefix { return prefixOf(p.Src) })
	for i := range rs {
		b.append(&rs[i], rs)
		for _, n := range rs[i].numbers {
			b.appendPolicy(n)
		}
		b.words[len(b.words)-policyWords] |= lastPolicy
		if len(b.words) > b.room {
			return 0, errFull
		}
	}
	return b.trie(rs, 0)
}

func (b *builder) append(r *record, rs []record) {
	r.at = uint32(len(b.words))
	parent, more, lowest := uint32(0), uint32(0), uint32(r.numbers[0])
	if r.parent >= 0 {
		parent = rs[r.parent].at
	}
	if r.more >= 0 {
		more = rs[r.more].at
		lowest = min(lowest, rs[r.more].lowest)
	}
	r.lowest = lowest
	b.words = append(b.words, r.bits<<bitsAt|parent, more, lowest, uint32(r.hi>>32))
	if b.wide {
		b.words = append(b.words, uint32(r.hi), uint32(r.lo>>32), uint32(r.lo))
	}
}

func (b *builder) appendPolicy(number int32) {
	p := &b.policies[number]
	what := uint32(verdict(p))<<verdictAt | uint32(p.Protocol)
	if !p.SrcPorts.some {
		what |= anySrcPort
	}
	if !p.DstPorts.some {
		what |= anyDstPort
	}
	b.words = append(b.words, uint32(number), what, p.SrcPorts.word(), p.DstPorts.word())
}

func (r PortRange) word() uint32 { return uint32(r.first) | uint32(r.last)<<16 }

// align advances to the next multiple of n words.
func (b *builder) align(n int) error {
	for len(b.words)%n != 0 {
		b.words = append(b.words, 0)
	}
	if len(b.words) > b.room {
		return errFull
	}
	return nil
}
