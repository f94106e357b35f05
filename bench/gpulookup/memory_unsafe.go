package gpulookup

import (
	"sync/atomic"
	"unsafe"
)

// storeWord stores 8 bytes at once, behind all that was stored before.
func storeWord(to []byte, word uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&to[:8][0])), word)
}

// loadNumber loads 4 bytes that somebody else stores.
func loadNumber(from []byte) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&from[:4][0])))
}
