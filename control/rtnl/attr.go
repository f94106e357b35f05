package rtnl

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Attrs walks the attributes of a message. The first thing that does not fit
// stops it and stays in Err, so that callers check once, at the end.
type Attrs struct {
	rest []byte
	Err  error

	Kind  uint16 // of the attribute that Next moved to, without flags
	Value []byte // the attribute's; aliases the message
}

// typeMask takes the flags "nested" and "byte order" off an attribute's type.
const typeMask = 0x3fff

// Header cuts a fixed header of n bytes off a message and returns it with the
// attributes that follow; nil if the message is too short.
func Header(data []byte, n int) ([]byte, Attrs) {
	if len(data) < n {
		return nil, Attrs{Err: fmt.Errorf("header of %d bytes, want %d: %w", len(data), n, ErrTruncated)}
	}
	return data[:n], Attrs{rest: data[min(align(n), len(data)):]}
}

// Next moves to the next attribute and reports whether there is one.
func (a *Attrs) Next() bool {
	if a.Err != nil || len(a.rest) < unix.SizeofRtAttr {
		return false // fewer bytes than an attribute's header are padding
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

func (a *Attrs) bad(want string) {
	if a.Err == nil {
		a.Err = fmt.Errorf("attribute %d has %d bytes, want %s", a.Kind, len(a.Value), want)
	}
}

// Uint32 is the value as a number in host byte order.
func (a *Attrs) Uint32() uint32 {
	if len(a.Value) < 4 {
		a.bad("4")
		return 0
	}
	return binary.NativeEndian.Uint32(a.Value)
}

// addr is the value as an address of 4 or 16 bytes.
func (a *Attrs) addr() netip.Addr {
	ip, ok := netip.AddrFromSlice(a.Value)
	if !ok {
		a.bad("an address of 4 or 16")
	}
	return ip
}

// via is the value as an address with its family in front (struct rtvia).
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

// text is the value as a string that may end with a zero byte.
func (a *Attrs) text() string {
	for i, c := range a.Value {
		if c == 0 {
			return string(a.Value[:i])
		}
	}
	return string(a.Value)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
