package device

import (
	"unsafe"

	"github.com/warproute/warproute/ipsec/suite"
)

// KeyBytes is the size of a Key.
const KeyBytes = int(unsafe.Sizeof(Key{}))

// Bytes returns the memory of the key, not a copy, as a device wants it.
func (k *Key) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k))
}

// Used returns how many bytes of the key, from its beginning on, sealing or opening needs.
func (k *Key) Used(open bool) int {
	switch c := suite.Cipher(k.Cipher); {
	case c == suite.Null:
		return int(unsafe.Offsetof(k.Encrypt))
	case c == suite.CTR || c == suite.ChaCha20:
		return int(unsafe.Offsetof(k.IV))
	case c == suite.CBC && !open:
		return int(unsafe.Offsetof(k.Decrypt))
	case c == suite.CBC:
		return int(unsafe.Offsetof(k.Powers))
	}
	return KeyBytes
}
