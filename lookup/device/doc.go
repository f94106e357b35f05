// Package device looks up addresses on a GPU with the router's tables and device code.
//
// Load copies a table's image to the device; Table.LookupBatch returns the same next hops as the
// original table. Benchmarks launch the kernels themselves with Columns and Params.
//
// # Columns
//
// Numbers are in host byte order. An IPv4 address has 4 bytes. IPv6 addresses have two columns: the
// upper and the lower 64 bits. A lookup reads the lower half only if a route longer than /64 can
// match, so an address in host memory needs 8 bytes of PCIe bandwidth, seldom 16. A result is a
// 32-bit next hop.
package device
