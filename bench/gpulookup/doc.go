// Package gpulookup measures longest-prefix-match lookups on a GPU: the router's tables and device
// code, for address columns as in package lookup/device.
//
// Transfer methods:
//
//	device     addresses and results are in GPU memory; launched kernels look up all at once. A
//	           second run assumes a constant table, whose words the L1 caches may keep: the cost of
//	           supporting route changes
//	copied     asynchronous copies from and to pinned host memory beside the kernels, in chunks of
//	           4 Mi addresses over four streams, round-robin
//	mapped     launched kernels read addresses from host memory and write results there, in place
//	resident   the same by a resident kernel, whose blocks poll doorbells in host memory
//
// # Verification
//
// Before measurement, each method looks up the edges of every prefix and a million destinations of
// each kind, and the results are compared with an oracle. After measurement, all results are
// compared with lookups in Go, which were compared with the oracle, too. Results are poisoned before
// each run.
//
// # Limits
//
// Each rate is reported beside its limit: the same method without lookups in the same run. For columns
// in GPU memory the limit is the rate of random reads of root words: an IPv4 lookup is one of them,
// an IPv6 lookup several. Frequent destinations hit closer caches and can exceed it.
package gpulookup
