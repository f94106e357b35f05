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

// restBytes is the size of the larger of what a Key has in one place.
const restBytes = max(unsafe.Sizeof(powers{}), unsafe.Sizeof(separate{}))

func (k *Key) powers() *powers     { return (*powers)(unsafe.Pointer(&k.rest)) }
func (k *Key) separate() *separate { return (*separate)(unsafe.Pointer(&k.rest)) }

// Used returns how many bytes of the key, from its beginning on, sealing or opening needs.
func (k *Key) Used(open bool) int {
	rest := uintptr(0)
	switch c := suite.Cipher(k.Cipher); {
	case c == suite.GCM:
		rest = unsafe.Sizeof(powers{})
	case c == suite.Null || c == suite.CTR:
		rest = unsafe.Offsetof(separate{}.IV)
	case c == suite.CBC && !open:
		rest = unsafe.Offsetof(separate{}.Decrypt)
	case c == suite.CBC:
		rest = unsafe.Sizeof(separate{})
	}
	return int(unsafe.Offsetof(k.rest) + rest)
}
