package device

import (
	"encoding/binary"
	"net/netip"
)

// The bytes of an element of the columns.
const (
	AddressBytes4 = 4
	AddressBytes6 = 8
	LowerBytes    = 8
	HopBytes      = 4
)

// Put4 makes an IPv4 address number i of a column.
func Put4(addresses []byte, i int, a netip.Addr) {
	b := a.As4()
	binary.NativeEndian.PutUint32(addresses[AddressBytes4*i:], binary.BigEndian.Uint32(b[:]))
}

// Put6 makes an IPv6 address number i of both of its columns.
func Put6(addresses, lowers []byte, i int, a netip.Addr) {
	b := a.As16()
	binary.NativeEndian.PutUint64(addresses[AddressBytes6*i:], binary.BigEndian.Uint64(b[:8]))
	binary.NativeEndian.PutUint64(lowers[LowerBytes*i:], binary.BigEndian.Uint64(b[8:]))
}
