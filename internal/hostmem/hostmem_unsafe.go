package hostmem

import "unsafe"

// address returns the address of memory.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// distance returns the number of bytes in front of the first huge page in memory.
func distance(b []byte) int { return int(-address(b) % HugePage) }
