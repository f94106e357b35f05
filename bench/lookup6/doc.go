// Package lookup6 holds published designs for IPv6 longest-prefix match, each as
// a read-only table, to measure the router's own table (package lookup/ipv6)
// against. Nothing but benchmarks uses them.
//
// All answer batches, and walk the addresses of a batch side by side, one step of
// each at a time: the steps of one address wait for one another, those of
// different addresses do not, so that their cache misses overlap. Where a guess
// of the processor would often be wrong they choose without branches.
//
// Bytes are of the internet's table of 160,147 routes with random next hops;
// touches are averages for an address in a random one of its routes. What a change
// would cost follows from the layout: nothing here takes changes, or measures them.
//
//	           bytes   what a lookup touches,                what one change
//	         a route   one after another                     must write
//	poptrie       24   an array, a node for each 6 bits      the arrays of children and
//	                   beyond 18, a leaf: 7 for a /48        leaves of the nodes it meets
//	lengths       42   a slot for each length tried, 2.5;    a route's markers, and all
//	                   more where hashes collide             markers that it answers for
//	ranges       436   an array of 64 MiB, of which the      the list of intervals, and the
//	                   internet fills little; 9 keys;        array from there on
//	                   a value
//	planb         18   a node for each factor of 9 in the    all: there are no pointers to
//	                   number of intervals, 6; a value       a new part
//
// Routes longer than /64, which are few, are in tables of their own below an
// exact /64 and looked up one at a time, but for Poptrie, where they are as any.
package lookup6
