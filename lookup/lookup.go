// Package lookup holds the types that the IPv4 and IPv6 tables share.
//
// A table maps a destination address to a NextHop, a small number that names an
// entry of the forwarding base (package fib). The tables know nothing of what a
// next hop is, so that the same table serves the CPU, the GPU and a benchmark.
package lookup

// NextHop names an entry of the forwarding base's next-hop array.
// Valid values run from 1 to MaxNextHop; Miss is what a lookup returns when no
// prefix covers the address, and entry 0 of the array is never a route.
type NextHop uint32

const (
	// Miss: no prefix covers the address.
	Miss NextHop = 0
	// MaxNextHop is the largest value that every table can store.
	MaxNextHop NextHop = 1<<20 - 1
)
