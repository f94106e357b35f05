package dataplane

import "unsafe"

// headerAt returns the first bytes of the frame at an address. It checks bounds once, which takes a fraction of the
// instructions of a slice's conversion to an array.
func headerAt(mem []byte, addr uint32) *[macsLen + 8]byte {
	const last = macsLen + 8 - 1
	return (*[macsLen + 8]byte)(unsafe.Add(unsafe.Pointer(&mem[uint64(addr)+last]), -last))
}
