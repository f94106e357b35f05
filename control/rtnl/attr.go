package rtnl

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Attrs iterates over the attributes of a message. The first malformed attribute ends the
// iteration and sets Err, so that callers check for errors once, after the loop.
type Attrs struct {
	rest []byte
	Err  error

	Kind  uint16 // type of the current attribute, without flags
	Value []byte // value of the current attribute; aliases the message
}

// typeMask removes NLA_F_NESTED and NLA_F_NET_BYTEORDER from an attribute type.
const typeMask = 0x3fff

// Header splits a message into a header of n bytes and attributes. The header is nil if the
// message is shorter.
func Header(data []byte, n int) ([]byte, Attrs) {
	if len(data) < n {
		return nil, Attrs{Err: fmt.Errorf("header of %d bytes, want %d: %w", len(data), n, ErrTruncated)}
	}
	return data[:n], Attrs{rest: data[min(align(n), len(data)):]}
}

// Next advances to the next attribute. It returns false at the end and after an error.
func (a *Attrs) Next() bool {
	if a.Err != nil || len(a.rest) < unix.SizeofRtAttr {
		return false // a remainder shorter than an attribute header is padding
	}
	n := int(binary.NativeEndian.Uint16(a.rest))
	if n < unix.SizeofRtAttr || n > len(a.rest) {
		a.Err = fmt.Errorf("attribute of %d bytes where %d are left: %w", n, len(a.rest), ErrTruncated)
		return false
	}
	a.Kind = binary.NativeEndian.Uint16(a.rest[2:]) & typeMask
	a.Value = a.rest[unix.SizeofRtAttr:n]
	a.rest = a.rest[min(align(n), len(a.rest)):]
	return true
}

// bad sets Err for a value of the wrong length.
func (a *Attrs) bad(want string) {
	if a.Err == nil {
		a.Err = fmt.Errorf("attribute %d has %d bytes, want %s", a.Kind, len(a.Value), want)
	}
}

// Uint32 returns the value as a number in host byte order.
func (a *Attrs) Uint32() uint32 {
	if len(a.Value) < 4 {
		a.bad("4")
		return 0
	}
	return binary.NativeEndian.Uint32(a.Value)
}

// uint16 returns the value as a number in host byte order.
func (a *Attrs) uint16() uint16 {
	if len(a.Value) < 2 {
		a.bad("2")
		return 0
	}
	return binary.NativeEndian.Uint16(a.Value)
}

// addr returns the value as an address of 4 or 16 bytes.
func (a *Attrs) addr() netip.Addr {
	ip, ok := netip.AddrFromSlice(a.Value)
	if !ok {
		a.bad("an address of 4 or 16")
	}
	return ip
}

// via returns the address of a struct rtvia: family, address.
func (a *Attrs) via() netip.Addr {
	if len(a.Value) < 2 {
		a.bad("a family and an address")
		return netip.Addr{}
	}
	ip, ok := netip.AddrFromSlice(a.Value[2:])
	if !ok {
		a.bad("a family and an address")
	}
	return ip
}

// text returns the value as a string, up to the first zero byte.
func (a *Attrs) text() string {
	for i, c := range a.Value {
		if c == 0 {
			return string(a.Value[:i])
		}
	}
	return string(a.Value)
}

// wrap prefixes a non-nil error with an operation.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
