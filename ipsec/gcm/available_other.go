//go:build !amd64

package gcm

// Available is false: the code is for one processor.
func Available() bool { return false }

func seal512(key *uint32, dst, src *byte, n int, first, aad *[16]byte, lengths *[2]uint64, tag *[16]byte) {
	panic("gcm: not available")
}

func open512(key *uint32, dst, src *byte, n int, first, aad *[16]byte, lengths *[2]uint64, tag *[16]byte) {
	panic("gcm: not available")
}

func counter512(key *uint32, dst, src *byte, n int, first *[16]byte) { panic("gcm: not available") }
