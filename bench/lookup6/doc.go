// Package lookup6 holds published designs for IPv6 longest-prefix match, each as
// a read-only table, to measure the router's own table (package lookup/ipv6)
// against. Nothing but benchmarks uses them.
//
// All answer batches, and walk the addresses of a batch side by side, one step of
// each at a time: the steps of one address wait for one another, those of
// different addresses do not, so that their cache misses overlap. Where a guess
// of the processor would often be wrong they choose without branches.
//
// Bytes are of the internet's table of 160,147 routes with random next hops, and
// touches those for an address in a random one of its routes:
//
//	           bytes   what a lookup touches, one after      what a change costs,
//	         a route   another                               as published
//	poptrie       24   an array, a node for each 6 bits      the changed node's arrays of
//	                   beyond 18, a leaf: 7 for a /48        children and leaves, anew
//	lengths       42   a slot for each length tried: 2.5,    all markers whose answer it is:
//	                   at most 10, and more where hashes     any number; the paper's authors
//	                   collide                               build anew
//	ranges       436   an array of 64 MiB, of which the      the intervals of each range of
//	                   internet fills little; 9 keys,        the array that it meets
//	                   at most 13; a value
//	planb         18   a node for each factor of 9 in the    all is built anew: 30 ms
//	                   number of intervals, 6; a value
//
// A table that takes changes of single routes in place pays for it in bytes, and
// none of these does: that is the other half of the comparison.
//
// Routes longer than /64, which are few, are in tables of their own below an
// exact /64 and looked up one at a time, but for Poptrie, where they are as any.
package lookup6
