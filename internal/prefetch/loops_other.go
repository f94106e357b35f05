//go:build !amd64

package prefetch

// Without assembly there is no prefetch.
func read(pointers **byte, n int, offset uintptr)  {}
func write(pointers **byte, n int, offset uintptr) {}

func readAt(base *byte, offsets *uint32, n int, apart uintptr)  {}
func writeAt(base *byte, offsets *uint32, n int, apart uintptr) {}
