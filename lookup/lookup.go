// Package lookup defines the common types of the IPv4 and IPv6 tables.
//
// A table maps a destination address to a NextHop, the index of an entry of the
// FIB (package fib). The tables do not interpret next hops, so the same
// table serves the CPU, the GPU and benchmarks.
package lookup

// NextHop is an index into the FIB's next-hop array, from 1 to MaxNextHop. Package fib
// calls the index ID, and the array's word NextHop.
// Lookups return Miss if no prefix covers the address.
type NextHop uint32

const (
	// Miss is the result for an address that no prefix covers.
	Miss NextHop = 0
	// MaxNextHop is the largest value that every table can store.
	MaxNextHop NextHop = 1<<20 - 1
)

// NumVRFIDs is the number of VRF IDs of a table (package trie), with 0, the table itself: the largest ID is one less.
const NumVRFIDs = 1000
