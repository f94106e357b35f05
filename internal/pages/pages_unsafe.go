package pages

import "unsafe"

// address is where memory begins.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// distance returns how far it is to the first huge page in memory.
func distance(b []byte) int { return int(-address(b) % Huge) }
