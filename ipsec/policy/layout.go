// Package policy is the security policy database (RFC 4301 section 4.4.1): an ordered list of
// policies, the first match decides. It is compiled into a table of words that a CPU and a GPU
// (policy.h) can walk.
//
// # Lookup
//
// Policies with the same destination prefix form a destination, and those of them with the same
// source prefix a source, which holds their list of protocols and ports:
//
//	destination's trie ─► destination ── sources' trie ─► source: policy, policy, …
//	                          │ more                          │ more
//	                          ▼                               ▼
//	                   a shorter prefix                a shorter prefix
//
// A lookup finds the longest destination prefix that covers the address, in it the longest source
// prefix, and searches the list. Addresses outside of the common prefix of all destinations skip the
// search: where a site's networks are adjacent, all packets from there would search inbound policies
// without a match. Policies of shorter prefixes may match, too. A record has copies of them if they are
// few; otherwise it refers to the record that has them (more; 0 for none). Copies save steps, and
// references keep the table small: without them, half of the policies for any source and half for
// any destination would be copied n²/4 times. The search ends when only higher numbers than the one
// found follow.
//
// # The table
//
// A table is an array of words in the byte order of the machine, and an index is a word's position.
// Record 0 means none. A trie is named by a word, its root:
//
//	 31   30      24 23    20 19                          0
//	+---+-----------+--------+-----------------------------+
//	| 1 | position  | stride | index of the slots / 8      |  node: 2^(stride+1) slots, chosen by the
//	+---+-----------+--------+-----------------------------+  address bits from position (0: the first)
//	| 0 | index of a record, or 0                          |
//	+---+--------------------------------------------------+
//
// Tries skip bits that do not distinguish their prefixes. So the record at the end of a walk is the
// right one or too long; then the longest prefix is among its parents.
//
//	word 0       1      2        3             then
//	+------+-----+------+--------+-------------+-----------------------------+
//	| bits | parent| more | lowest | address    | destination: sources' trie  |
//	| (8)  | (24)  |      |        | 1 or 4     | source: its list            |
//	+------+-----+------+--------+-------------+-----------------------------+
//
// Lowest is the lowest number of a policy in the record and those behind more. A list has four words
// per policy: its number, with bit 31 set in the last one; protocol (8 bits), any source port (1), any
// destination port (1), action (2), target (20); source and destination ports, the first of each range
// in the lower half.
//
// # Cost
//
// A policy with its own prefixes takes 64 bytes for IPv4 and 80 to 128 for IPv6, and 8 to 16 in the
// trie. A lookup among 10,000 of them touches three or four lines outside of the first-level cache. The
// list of one source is searched linearly: a thousand policies that differ only in ports are a thousand
// comparisons.
//
// On a core with 1 MiB of second-level cache a lookup among 10,000 tunnels takes 15 to 40 ns; 30 to 105
// ns in a batch with a cold cache, and twice that alone. Among 1,000 overlapping policies of all sizes
// with ports it takes 80 to 100 ns, and 130 to 200 with a cold cache. Ten thousand policies are built
// in 5 to 80 ms.
package policy

//go:generate go test -run ^TestCHeader$ -update .

// Layout of a table, in words. layout.h is generated from it for devices.
const (
	ipv4Root = 0 // word of the destinations' trie
	ipv6Root = 1
	header   = 16 // words before the first record

	maxWords = 1 << 23 // largest index that a node can hold
	line     = 16      // words of a cache line

	wordBytes = 4

	nodeBit     = 31 // set in a node's word
	node        = 1 << nodeBit
	positionAt  = 24
	strideAt    = 20
	slotsMask   = 1<<strideAt - 1
	slotsUnit   = 8
	minStride   = 3 // 1<<minStride == slotsUnit
	maxStride   = 16
	bitsAt      = 24 // of a record's first word
	parentMask  = 1<<bitsAt - 1
	more        = 1 // words of a record
	lowest      = 2
	address     = 3
	policyWords = 4
	lastPolicy  = 1 << 31
	anySrcPort  = 1 << 8
	anyDstPort  = 1 << 9
	verdictAt   = 10
)

// head is the start of a record. With its list, or with its trie and sources, a record is never
// shorter.
type head [address + 5]uint32

// covers reports whether a record's prefix covers a key.
func (r *head) covers(k *key, wide bool) bool {
	n := r[0] >> bitsAt
	hi := k.hi ^ uint64(r[address])<<32
	if wide {
		hi ^= uint64(r[address+1])
	}
	if n > 64 {
		return hi|(k.lo^(uint64(r[address+2])<<32|uint64(r[address+3])))>>(128-n) == 0
	}
	return hi>>(64-n) == 0
}

// entry is a policy in a list.
type entry [policyWords]uint32

// any reports whether it matches every flow between its prefixes.
func (p *entry) any() bool {
	const ports = anySrcPort | anyDstPort
	return p[1]&(ports|0xff) == ports
}

// Verdict is a policy's action and target.
type Verdict uint32

// Action returns the action of the matching policy, Discard for none.
func (v Verdict) Action() Action { return Action(v & 3) }

// Target returns the target of the matching policy.
func (v Verdict) Target() uint32 { return uint32(v >> 2) }

// Verdict returns the policy's action and target.
func (p *Policy) Verdict() Verdict { return verdict(p) }

func verdict(p *Policy) Verdict { return Verdict(p.Target<<2) | Verdict(p.Action) }
