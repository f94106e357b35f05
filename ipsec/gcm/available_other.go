//go:build !amd64

package gcm

// Available reports false: the code is for amd64.
func Available() bool { return false }

func seal512(key *uint32, dst, src *byte, n int, firstLow, firstHigh, aadLow, aadHigh, aadBits uint64, tag *[16]byte) {
	panic("gcm: not available")
}

func open512(key *uint32, dst, src *byte, n int, firstLow, firstHigh, aadLow, aadHigh, aadBits uint64, tag *[16]byte) {
	panic("gcm: not available")
}

func counter512(key *uint32, dst, src *byte, n int, firstLow, firstHigh uint64) {
	panic("gcm: not available")
}
