package testutil

import (
	"bytes"
	"encoding/binary"
)

// Sum returns the one's complement sum of RFC 1071, section 1.
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

// pseudo returns the sum of the pseudo-header with the source and destination in addrs.
func pseudo(addrs []byte, proto byte, l4len int) uint16 {
	return Sum(append(bytes.Clone(addrs), 0, proto, byte(l4len>>8), byte(l4len)))
}

// Unfinished returns a copy of a frame with only the pseudo-header sum in its checksum field, as Linux
// leaves it for checksum offload.
func Unfinished(frame []byte, field int, addrs []byte, proto byte, l4len int) []byte {
	out := bytes.Clone(frame)
	binary.BigEndian.PutUint16(out[field:], pseudo(addrs, proto, l4len))
	return out
}
