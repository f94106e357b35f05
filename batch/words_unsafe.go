package batch

import "unsafe"

// Words returns frames or results as words, for loops that copy or change them: the address is in the lowest 32 bits,
// then come the length, and the origin or the verdict. A load of a struct after stores of its fields waits
// for the stores, and loads and stores of fields take three instructions each.
func Words[T Frame | Result](items []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(items))), len(items))
}
