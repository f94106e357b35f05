package device

import (
	"encoding/binary"
	"net/netip"
)

// Sizes of column elements in bytes.
const (
	AddressBytes4 = 4
	AddressBytes6 = 8
	LowerBytes    = 8
	HopBytes      = 4
)

// Put4 stores an IPv4 address at index i of a column.
func Put4(addresses []byte, i int, a netip.Addr) {
	b := a.As4()
	binary.NativeEndian.PutUint32(addresses[AddressBytes4*i:], binary.BigEndian.Uint32(b[:]))
}

// Put6 stores an IPv6 address at index i of both address columns.
func Put6(addresses, lowers []byte, i int, a netip.Addr) {
	b := a.As16()
	binary.NativeEndian.PutUint64(addresses[AddressBytes6*i:], binary.BigEndian.Uint64(b[:8]))
	binary.NativeEndian.PutUint64(lowers[LowerBytes*i:], binary.BigEndian.Uint64(b[8:]))
}
