// Package gpulookup measures longest-prefix matches on a GPU: the router's own
// tables, walked by its own device code with its own loads, for columns of addresses as
// package lookup/device has them.
//
// The ways of the addresses to the GPU and of the results back:
//
//	device     both are in the GPU's memory, and launched kernels look up all at once;
//	           once more for a table at rest, whose words the caches next to the
//	           multiprocessors may keep: what the router cannot do, but shows what
//	           it costs that routes can change
//	copied     from pinned memory of the host and back to it, by copies beside the
//	           kernels: chunks of 4 Mi addresses, taken by turns by four streams
//	mapped     launched kernels read addresses from the host's memory and write
//	           results to it, in place; no copies
//	resident   the same by a kernel that stays: its blocks are told of chunks by
//	           doorbells in the host's memory, and answer there
//
// # What is verified
//
// Before anything is timed, each way answers the edges of every prefix and a million
// destinations of each kind as an oracle does. After being timed, the results of
// all destinations are compared with the walk in Go, which has answered the
// oracle's questions, too. Results are poisoned before each.
//
// # Limits
//
// Beside each rate is the most that this machine gave in the same run to the same
// way without lookups: addresses in, any results out. For what is in the device's
// memory it is the rate at which a kernel reads words of the table's root at random
// and does nothing else; the longest-prefix match of one IPv4 address is one such
// read, of an IPv6 address several. Destinations that come often are in nearer caches
// and can be faster than that.
package gpulookup
