package gpulookup

import (
	"sync/atomic"
	"unsafe"
)

// storeWord stores 8 bytes atomically, ordered after earlier stores.
func storeWord(to []byte, word uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&to[:8][0])), word)
}

// loadNumber loads 4 bytes atomically.
func loadNumber(from []byte) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&from[:4][0])))
}
