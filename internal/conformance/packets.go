package conformance

import (
	"bytes"
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

// Short names of verdicts.
var (
	forward = batch.Forward
	drop    = batch.Drop
)

// to4 and to6 return UDP packets of 68 and 88 bytes from the client to an address.
func to4(dst string) []byte { return sized4(dst, 68) }
func to6(dst string) []byte { return sized6(dst, 88) }

// sized4 and sized6 return UDP packets of a size including the IP header.
func sized4(dst string, size int) []byte {
	return testutil.UDP4(client4, dst, 1000, 53, pattern(size-28)...)
}
func sized6(dst string, size int) []byte {
	return testutil.UDP6(client6, dst, 1000, 53, pattern(size-48)...)
}

// from4 and from6 return packets from an address to a routed one.
func from4(src string) []byte { return testutil.UDP4(src, "10.1.0.9", 1000, 53, pattern(40)...) }
func from6(src string) []byte { return testutil.UDP6(src, "fd01::9", 1000, 53, pattern(40)...) }

// proto4 and proto6 return packets with a protocol and its bytes.
func proto4(dst string, proto byte, rest ...byte) []byte {
	return testutil.Raw4(client4, dst, proto, rest...)
}
func proto6(dst string, next byte, rest ...byte) []byte {
	return testutil.Raw6(client6, dst, next, rest...)
}

// pattern returns n bytes without repetition.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + i/251)
	}
	return b
}

var edit = testutil.Edit

// hops changes a packet's TTL or hop limit.
func hops(f []byte, n byte) []byte {
	if f[ethernetLen]>>4 == 4 {
		return edit(f, 8, n)
	}
	return edit(f, 7, n)
}

// df sets DF in a packet.
func df(f []byte) []byte { return edit(f, 6, 0x40) }

// etherType changes the EtherType of a frame.
func etherType(f []byte, t uint16) []byte {
	f = bytes.Clone(f)
	binary.BigEndian.PutUint16(f[12:], t)
	return f
}

// padded adds padding behind a packet.
func padded(f []byte, n int) []byte { return append(bytes.Clone(f), bytes.Repeat([]byte{0xee}, n)...) }

// chain returns an IPv6 UDP packet with extension headers of 8 bytes each.
func chain(dst string, kinds ...byte) []byte {
	var rest []byte
	for i := range kinds {
		next := byte(17)
		if i+1 < len(kinds) {
			next = kinds[i+1]
		}
		switch kinds[i] {
		case fragmentHeader:
			rest = append(rest, next, 0, 0, 1, 0, 0, 0, 7) // the first of several
		case ahHeader:
			rest = append(rest, next, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1)
		default:
			rest = append(rest, next, 0, 1, 4, 0, 0, 0, 0) // PadN
		}
	}
	return proto6(dst, kinds[0], append(rest, testutil.UDP6(client6, dst, 1000, 53, pattern(40)...)[54:]...)...)
}

// Extension headers.
const (
	hopByHop       = 0
	routingHeader  = 43
	fragmentHeader = 44
	ahHeader       = 51
	destination    = 60
	mobility       = 135
)

// all sets the verdict and the error of all cases.
func all(v batch.Verdict, e *Error, cases ...Case) []Case {
	for i := range cases {
		cases[i].Verdict, cases[i].Error = v, e
	}
	return cases
}
