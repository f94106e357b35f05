// Package lookup benchmarks longest-prefix match: the router's tables against a Go trie (bart) and DPDK's
// rte_fib and rte_fib6, in one run on one core.
//
// It times the load of each table and verifies the table against an oracle, at the edges of every prefix
// and for a million destinations of each kind. Contenders then look up round-robin, under the same
// conditions; the median of the rounds is reported. Finally it measures deletes, inserts and
// replacements, with and without a reader on another core, and verifies the table again.
//
// Destinations are cold: there are more addresses than the caches hold, and batches read them in order.
// Results overwrite those of the previous batch, as in a router's worker.
//
// Each contender is called as its users call it, once per batch, in a loop that reads the last result:
// the router's tables by a direct call in Go, rte_fib by rte_fib_lookup_bulk in C, compiled with -O3.
// The router's call includes the checks for concurrent changes and stores 32-bit next hops; rte_fib has
// no such checks and stores 64-bit next hops.
//
// DPDK's tables run in a C program (dpdk/peer.c) on the same core. The benchmark compiles it and sends
// it commands on standard input.
package lookup
