// Package lookup6 holds published designs for IPv6 longest-prefix match, each as
// a read-only table, to measure the router's own table (package lookup/ipv6)
// against. Nothing but benchmarks uses them.
//
// All of them answer batches, and all walk the addresses of a batch side by side,
// one step of each at a time: the steps of one address wait for one another, but
// those of different addresses do not, so that their cache misses overlap.
package lookup6
