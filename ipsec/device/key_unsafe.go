package device

import "unsafe"

// KeyBytes is the size of a Key.
const KeyBytes = int(unsafe.Sizeof(Key{}))

// Bytes returns the memory of the key, not a copy, as a device wants it.
func (k *Key) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k))
}
