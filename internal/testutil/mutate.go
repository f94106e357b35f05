package testutil

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/warproute/warproute/umem"
)

const ethernetLen = 14

// Edit returns a copy of a frame with bytes of its IP packet changed and the IPv4 header checksum
// updated.
func Edit(frame []byte, at int, with ...byte) []byte {
	f := bytes.Clone(frame)
	p := f[ethernetLen:]
	copy(p[at:], with)
	if p[0]>>4 == 4 {
		fixIPv4(p)
	}
	return f
}

// fixIPv4 updates the checksum of a header.
func fixIPv4(p []byte) {
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], ^Sum(p[:20]))
}

// Mutate truncates, extends or overwrites a copy of a frame at random.
func Mutate(rnd *rand.Rand, f []byte) []byte {
	f = bytes.Clone(f)
	for range 1 + rnd.IntN(4) {
		switch rnd.IntN(4) {
		case 0:
			f = f[:rnd.IntN(len(f)+1)]
		case 1:
			f = append(f, make([]byte, rnd.IntN(64))...)
		default:
			if len(f) > 0 {
				f[rnd.IntN(len(f))] = byte(rnd.Uint32())
			}
		}
		if len(f) > umem.MaxFrameLen {
			f = f[:umem.MaxFrameLen]
		}
		if len(f) == 0 {
			break
		}
	}
	return f
}
