package device

import "unsafe"

// Bytes returns the memory of the key, not a copy, as a device wants it.
func (k *Key) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k))
}
