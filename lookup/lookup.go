// Package lookup defines the common types of the IPv4 and IPv6 tables.
//
// A table maps a destination address to a NextHopID, the index of an entry of the
// FIB (package fib). The tables do not interpret next hops, so the same
// table serves the CPU, the GPU and benchmarks.
package lookup

// NextHopID is an index into the FIB's next-hop array, from 1 to MaxNextHopID. The
// array's word is fib.NextHop.
// Lookups return Miss if no prefix covers the address.
type NextHopID uint32

const (
	// Miss is the result for an address that no prefix covers.
	Miss NextHopID = 0
	// MaxNextHopID is the largest value that every table can store.
	MaxNextHopID NextHopID = 1<<20 - 1
)

// NumVRFIDs is the number of VRF IDs of a table (package trie), with 0, the table itself: the largest ID is one less.
const NumVRFIDs = 1000
