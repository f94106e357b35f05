package rtnl

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// attrs walks the attributes of a message. The first thing that does not fit
// stops it and stays in err, so that callers check once, at the end.
type attrs struct {
	rest []byte
	err  error

	kind  uint16
	value []byte
}

// typeMask takes the flags "nested" and "byte order" off an attribute's type.
const typeMask = 0x3fff

// header cuts a fixed header of n bytes off a message and returns it with the
// attributes that follow; nil if the message is too short.
func header(data []byte, n int) ([]byte, attrs) {
	if len(data) < n {
		return nil, attrs{err: fmt.Errorf("header of %d bytes, want %d: %w", len(data), n, ErrTruncated)}
	}
	return data[:n], attrs{rest: data[min(align(n), len(data)):]}
}

// next moves to the next attribute and reports whether there is one.
func (a *attrs) next() bool {
	if a.err != nil || len(a.rest) < unix.SizeofRtAttr {
		return false // fewer bytes than an attribute's header are padding
	}
	n := int(binary.NativeEndian.Uint16(a.rest))
	if n < unix.SizeofRtAttr || n > len(a.rest) {
		a.err = fmt.Errorf("attribute of %d bytes where %d are left: %w", n, len(a.rest), ErrTruncated)
		return false
	}
	a.kind = binary.NativeEndian.Uint16(a.rest[2:]) & typeMask
	a.value = a.rest[unix.SizeofRtAttr:n]
	a.rest = a.rest[min(align(n), len(a.rest)):]
	return true
}

func (a *attrs) bad(want string) {
	if a.err == nil {
		a.err = fmt.Errorf("attribute %d has %d bytes, want %s", a.kind, len(a.value), want)
	}
}

// uint32 is the value as a number in host byte order.
func (a *attrs) uint32() uint32 {
	if len(a.value) < 4 {
		a.bad("4")
		return 0
	}
	return binary.NativeEndian.Uint32(a.value)
}

// addr is the value as an address of 4 or 16 bytes.
func (a *attrs) addr() netip.Addr {
	ip, ok := netip.AddrFromSlice(a.value)
	if !ok {
		a.bad("an address of 4 or 16")
	}
	return ip
}

// via is the value as an address with its family in front (struct rtvia).
func (a *attrs) via() netip.Addr {
	if len(a.value) < 2 {
		a.bad("a family and an address")
		return netip.Addr{}
	}
	ip, ok := netip.AddrFromSlice(a.value[2:])
	if !ok {
		a.bad("a family and an address")
	}
	return ip
}

// text is the value as a string that may end with a zero byte.
func (a *attrs) text() string {
	for i, c := range a.value {
		if c == 0 {
			return string(a.value[:i])
		}
	}
	return string(a.value)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
