package testutil

import (
	"bytes"
	"encoding/binary"
)

// Sum is the Internet checksum's sum as RFC 1071 first describes it.
func Sum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		s += w
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// pseudo is the sum of the pseudo-header over addrs, source and destination.
func pseudo(addrs []byte, proto byte, l4len int) uint16 {
	return Sum(append(bytes.Clone(addrs), 0, proto, byte(l4len>>8), byte(l4len)))
}

// Unfinished returns a copy of a frame with the bare pseudo-header sum in its
// checksum field, as Linux leaves it when the rest is the device's.
func Unfinished(frame []byte, field int, addrs []byte, proto byte, l4len int) []byte {
	out := bytes.Clone(frame)
	binary.BigEndian.PutUint16(out[field:], pseudo(addrs, proto, l4len))
	return out
}
