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
// DPDK's tables run in a C program (dpdk/peer.c) on the same core. The benchmark compiles it and sends
// it commands on standard input.
package lookup
