// Package lookup measures longest-prefix matches: the router's own tables beside
// a Go trie (bart) and DPDK's rte_fib and rte_fib6, in one run on one core.
//
// A table is filled with routes, which is timed, and verified: the edges of every
// prefix and a million destinations of each kind must be answered as an oracle
// answers them. Then contenders look up by turns, so that all meet the same
// machine, and the median of the rounds counts. At the end routes are taken away,
// put back and replaced, with and without a reader on another core, and the
// table is verified once more.
//
// Destinations are cold: each batch reads addresses that were not read lately,
// out of far more than caches hold. Its answers go where those of the batch
// before went, as they would in a router's worker.
//
// DPDK's tables live in a process of their own, a C program that is compiled
// when the benchmark runs (dpdk/peer.c) and told by its standard input when to
// work, so that it runs on the same core while we wait.
package lookup
