// Package trie implements the table behind lookup/ipv4 and lookup/ipv6: a multibit trie
// with a direct root of 24 bits and strides of 8 below it (for IPv4 this is
// DIR-24-8: Gupta, Lin, McKeown, "Routing Lookups in Hardware at Memory Access
// Speeds", INFOCOM 1998). It is one flat array of words, walked by CPUs and devices.
//
// # The image
//
//	word 0                       Default = 2^24               FirstNode = 2^24 + 1024
//	+----------------------------+----------------------------+--------+--------+----
//	| root: a word per /24       | header: default, generation| node   | node   | …
//	+----------------------------+----------------------------+--------+--------+----
//
// A lookup starts at the word indexed by the upper 24 bits of the address. While the
// word is a reference, the lookup continues at the word with the index in the reference
// plus the next 8 bits of the address. The final word is a route, or 0, which stands for
// the default route.
//
//	 31   30                                                0
//	+---+---------------------------------------------------+
//	| 1 | index of a node's first word                      |  reference
//	+---+---------------------------------------------------+
//	| 0 | 0 0 0 | prefix length (8) | next hop (20)         |  route
//	+---+---------------------------------------------------+
//
// A VRF is a further table in the image, without a root of its own: its lookups start at its
// word in the header, which is a route or refers to a node for the first 8 bits of the
// address. Its default route is a route like others, so the word 0 stands for no route, and a
// lookup never continues in another table. A VRF without routes needs no memory.
//
// Words hold the prefix length so that an update does not need the routes below the
// prefix: a route overwrites every word in its range that does not hold a longer route.
// Words are in host byte order.
//
// # Concurrent readers
//
// An update overwrites reachable words one at a time, and fills a new node before it stores
// the reference to it; every store is of one aligned word. A lookup therefore ends at the old
// or the new route.
//
// Readers can still be in a node that is no longer referenced. Before the writer reuses
// nodes, it increments the generation in the header (a seqlock): a reader compares the
// generation before and after a batch and retries if it changed. The generation also
// changes before and after an update of the default route, because a lookup reads that
// word separately: without the retry, an address whose longer route is replaced by a
// default route could miss. Readers neither register nor wait.
//
// # Cost
//
// The root is 64 MiB, of which IPv6 uses few pages; a node is 1,088 bytes. An internet
// table of 901,899 IPv4 and 160,147 IPv6 routes has 451 and 38,096 nodes: 66 and 285
// bytes per route in the image, 88 and 329 with the writer's route store. A lookup reads
// one word for IPv4 (two for routes longer than /24), and for IPv6 one plus one for each
// 8 bits beyond 24: four for a /48. An update writes the words of its prefix and visits
// the words of longer routes in its range: 17 on average for IPv4, millions for a /1.
//
// Networks number from 0, so most lookups read the first words of a node. With a
// node pitch of 1 KiB, those words would share a sixteenth of the cache sets: IPv6
// lookups on a processor with 1 MiB of L2 cache took 1.4 to 1.8 times as long. The pitch
// is therefore one cache line more than the length of a node.
package trie

import (
	"net/netip"

	"github.com/warproute/warproute/lookup"
)

//go:generate go test -run ^TestCHeader$ -update .

// The layout of an image, in words. layout.h, generated from it, is for devices.
const (
	RootBits = 24
	NodeBits = 8

	RootWords  = 1 << RootBits    // length of the root
	NodeWords  = 1 << NodeBits    // length of a node
	Pitch      = NodeWords + 16   // distance between nodes: one cache line more than their length
	Default    = RootWords        // index of the default route's word
	Generation = RootWords + 1    // index of the generation: reuses of nodes, and changes of the default route
	VRFs       = RootWords + 16   // index of the words of VRFs, by number, on cache lines of their own
	NumVRFIDs  = lookup.NumVRFIDs // VRF IDs; 0, the table itself, has no word
	staging    = NumVRFIDs        // number of the word at which VRF.Load builds a table
	FirstNode  = RootWords + 1024 // index of the first node, after one page of header
	MaxWords   = 1 << 31          // limit of an image: the range of a reference
	Reference  = 1 << 31          // bit of a word that refers to a node

	NextHopBits = 20
	nextHopMask = 1<<NextHopBits - 1
	lengthMask  = 1<<8 - 1
)

// route returns the word of a route with a prefix of length bits.
func route(length int, nh lookup.NextHopID) uint32 { return uint32(length)<<NextHopBits | uint32(nh) }

// length returns the prefix length in a route's word; 0 for a word without a route.
func length(word uint32) int { return int(word >> NextHopBits & lengthMask) }

func nextHop(word uint32) lookup.NextHopID { return lookup.NextHopID(word & nextHopMask) }

func isReference(word uint32) bool { return word&Reference != 0 }

// node returns the index of the first word of the node that a reference names.
func node(word uint32) uint32 { return word &^ Reference }

// Key is an address in network byte order; an IPv4 address fills the first 4 bytes.
type Key [16]byte

func keyOf(a netip.Addr) (k Key) {
	if a.Is4() {
		b := a.As4()
		copy(k[:], b[:])
		return k
	}
	return a.As16()
}

// start returns the index of the word at which a walk in a VRF starts, 0 for the table itself, and the
// number of address bits that it resolves.
func (k *Key) start(vrf int) (at uint32, resolved int) {
	if vrf != 0 {
		return VRFs + uint32(vrf), 0
	}
	return uint32(k[0])<<16 | uint32(k[1])<<8 | uint32(k[2]), RootBits
}
