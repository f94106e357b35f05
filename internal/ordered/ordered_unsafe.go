// Package ordered stores words that other threads and devices read, each word whole and after
// every store before it in program order (a release store).
//
// A store of sync/atomic is sequentially consistent. On x86 it waits until the store buffer is
// empty, about 20 cycles. Processors of this family order plain stores, and an assembly function
// keeps the compiler from reordering, merging or splitting them. Other processors use sync/atomic.
// Race builds run the same code.
package ordered

import "unsafe"

//go:generate go run ./asm -pkg ordered -out store_amd64.s -stubs store_amd64.go

// Add adds n to a word that no other goroutine writes.
func Add(at *uint64, n uint64) { add(at, n) }

// AddPair adds n and m to two words that no other goroutine writes.
func AddPair(first, second *uint64, n, m uint64) { addPair(first, second, n, m) }

// AddToEach adds 1 to the first word of each record, and the number with the same index to the second word. No other goroutine
// writes them. n is at least as long as records.
func AddToEach[R any](records []*R, n []uint64) {
	n = n[:len(records)]
	addToEach((**uint64)(unsafe.Pointer(unsafe.SliceData(records))), len(records), unsafe.SliceData(n))
}

// ReplaceBelow replaces words up to the first that is not below limit, and returns its index.
func ReplaceBelow(words []uint32, limit, word uint32) (n int) {
	const most = 1 << 14 // words of a call, which the scheduler cannot interrupt
	for {
		block := words[n:min(n+most, len(words))]
		done := replaceBelow(unsafe.SliceData(block), len(block), limit, word)
		if n += done; done < most {
			return n
		}
	}
}

// FillLines stores one word at every stride bytes, from last back to first.
func FillLines(first *uint64, stride, n int, word uint64) {
	last := (*uint64)(unsafe.Add(unsafe.Pointer(first), (n-1)*stride))
	storeEach(last, -stride, &word, 0, n)
}

// StoreLines stores each of words at the beginning of the record with the same index. Records
// are at least as many as words.
func StoreLines[R any](records []R, words []uint64) {
	var r R
	records = records[:len(words)]
	storeEach((*uint64)(unsafe.Pointer(unsafe.SliceData(records))), int(unsafe.Sizeof(r)), unsafe.SliceData(words), 8, len(words))
}
