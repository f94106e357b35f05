//go:build !amd64

package ordered

import (
	"sync/atomic"
	"unsafe"
)

func add(at *uint64, n uint64) { atomic.StoreUint64(at, *at+n) }

func addPair(first, second *uint64, n, m uint64) {
	add(first, n)
	add(second, m)
}

func addToEach(records **uint64, n int, m *uint64) {
	for i, first := range unsafe.Slice(records, n) {
		addPair(first, (*uint64)(unsafe.Add(unsafe.Pointer(first), 8)), 1, unsafe.Slice(m, n)[i])
	}
}

func replaceBelow(at *uint32, n int, limit, word uint32) int {
	for i := range n {
		p := (*uint32)(unsafe.Add(unsafe.Pointer(at), 4*i))
		if *p >= limit {
			return i
		}
		atomic.StoreUint32(p, word)
	}
	return n
}

func storeEach(at *uint64, stride int, words *uint64, step int, n int) {
	for i := range n {
		word := *(*uint64)(unsafe.Add(unsafe.Pointer(words), i*step))
		atomic.StoreUint64((*uint64)(unsafe.Add(unsafe.Pointer(at), i*stride)), word)
	}
}
