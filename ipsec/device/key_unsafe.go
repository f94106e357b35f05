package device

import "unsafe"

// KeyBytes is the size of a Key.
const KeyBytes = int(unsafe.Sizeof(Key{}))

// SegmentsBytes is the size of all segments of the longest key: the most that a packet needs.
const SegmentsBytes = int(unsafe.Offsetof(Key{}.Tunnel))

// Bytes returns the memory of the key, in the format of the device.
func (k *Key) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k))
}
