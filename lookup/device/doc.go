// Package device looks addresses up on a GPU: the router's own tables, walked by
// its own device code with its own loads, for columns of addresses.
//
// Load copies the image of a table to the device; Table.LookupBatch answers there what
// the table answers here. Who wants other ways for the columns, or to launch by himself,
// has the kernels' parameters (Columns, Params).
//
// # Columns
//
// Numbers are in host byte order. An IPv4 address is 4 bytes. IPv6 addresses are two
// columns, the upper 64 bits of each and the lower 64 bits of each: a lookup reads
// the lower half only where the table has routes longer than /64 on the address's
// way. So, from the host's memory, an address costs PCIe 8 bytes, seldom 16. A result
// is the 32-bit number of a next hop.
package device
