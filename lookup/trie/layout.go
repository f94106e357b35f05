// Package trie is the table behind lookup/ipv4 and lookup/ipv6: a multibit trie
// with a direct root of 24 bits and strides of 8 below it (for IPv4 this is
// DIR-24-8: Gupta, Lin, McKeown, "Routing Lookups in Hardware at Memory Access
// Speeds", INFOCOM 1998), in one flat array of words that a CPU and a device walk alike.
//
// # The image
//
//	word 0                       Default = 2^24            Groups = 2^24 + 1024
//	+----------------------------+-------------------------+---------+---------+----
//	| root: a word for each /24  | header: default, reuses | group   | group   | …
//	+----------------------------+-------------------------+---------+---------+----
//
// A lookup begins at the word with the index of the address's upper 24 bits.
// While the word is a reference, it goes to the word that many words from the
// beginning of the image, plus the next 8 bits of the address. The word it ends
// at is a route, or 0, for which the default route's word stands.
//
//	 31   30                                                0
//	+---+---------------------------------------------------+
//	| 1 | index of a group's first word                     |  reference
//	+---+---------------------------------------------------+
//	| 0 | 0 0 0 | prefix length (8) | next hop (20)         |  route
//	+---+---------------------------------------------------+
//
// Prefix lengths are in the words so that a change needs to know nothing of the
// routes below its own: a route takes every word in its range that is not of a
// longer one. Words are in the byte order of the machine.
//
// # Readers beside a writer
//
// A change fills what no reader can reach yet, then stores the word that makes
// it reachable; every store is of one aligned word. A lookup therefore ends at
// the old or the new route. A group that nothing refers to any more may still be
// on some reader's way, so before groups are used for something else the writer
// counts up the reuses in the header; a reader that finds another count after a
// batch than before it looks up again. So it does around a change of the default
// route, whose word a lookup reads apart from the others: an address that had a
// longer route until there was a default route never has none. Readers register
// nowhere and wait for none.
//
// # Cost
//
// 64 MiB of root, of which IPv6 touches few pages, and 1088 bytes a group. An internet
// table of 901,899 IPv4 and 160,147 IPv6 routes has 451 and 38,096 groups: 66 and
// 285 bytes a route in the image, 88 and 329 with the writer's store of routes. A
// lookup touches one word for IPv4 (two for routes longer than /24), for IPv6 one
// and another for each 8 bits beyond 24: four for a /48. A change touches the
// words that it changes, and those of longer routes among them: 17 on average for
// IPv4, millions for a /1.
//
// Networks number from 0, so most lookups use the first words of a group. Were
// groups 1 KiB apart, those words would share a sixteenth of a cache's sets: IPv6
// lookups on a processor with 1 MiB of second-level cache took 1.4 to 1.8 times as long.
// Groups are a cache line further apart than they are long.
package trie

import (
	"net/netip"

	"github.com/warproute/warproute/lookup"
)

// The layout of an image, in words. trie.h says the same to devices; a test compares them.
const (
	RootBits  = 24
	GroupBits = 8

	Root      = 1 << RootBits  // words of the root
	Group     = 1 << GroupBits // words of a group
	Pitch     = Group + 16     // words from one group to the next: a cache line's further
	Default   = Root           // the word of the default route
	Reuses    = Root + 1       // how many times groups began another life, or the default route
	Groups    = Root + 1024    // where groups begin: one page for the header
	MaxWords  = 1 << 31        // of an image: what a reference can name
	Reference = 1 << 31        // the bit of a word that makes it one

	NextHopBits = 20
	nextHopMask = 1<<NextHopBits - 1
	lengthMask  = 1<<8 - 1
)

// route is the word of a route with a prefix of length bits.
func route(length int, nh lookup.NextHop) uint32 { return uint32(length)<<NextHopBits | uint32(nh) }

// length is the prefix length of a route's word; 0 for a word of no route.
func length(word uint32) int { return int(word >> NextHopBits & lengthMask) }

func nextHop(word uint32) lookup.NextHop { return lookup.NextHop(word & nextHopMask) }

func isReference(word uint32) bool { return word&Reference != 0 }

// group is the index of the first word of the group that a word refers to.
func group(word uint32) uint32 { return word &^ Reference }

// Key is an address with its first bit in front, as a walk takes it; an IPv4
// address fills the first 4 bytes.
type Key [16]byte

func keyOf(a netip.Addr) (k Key) {
	if a.Is4() {
		b := a.As4()
		copy(k[:], b[:])
		return k
	}
	return a.As16()
}

// root is the index of the word at which a walk begins.
func (k *Key) root() uint32 { return uint32(k[0])<<16 | uint32(k[1])<<8 | uint32(k[2]) }
