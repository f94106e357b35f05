// Package rtnl reads and asks for what Linux tells about its network over
// rtnetlink: links, addresses, routes, next-hop objects, neighbours, rules.
//
// It does what the general netlink library does not, and no more: all groups on
// one socket, so that messages keep the order of what happened; batches of them
// in one buffer; and parsing into structs that are used again, so that a table
// of a million routes is read without a million allocations.
//
//	kernel ─► Listener.Receive (events) ─┐
//	kernel ─► Conn.Dump (state)         ─┴► Next ─► Message ─► (*Route).Parse ...
//
// Parsers take any bytes: what is cut short or does not fit is an error, what is
// unknown is skipped.
//
// Other netlink families differ in their messages alone: for control/xfrm sockets,
// requests and attributes are the same.
package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrTruncated is wrapped by errors of messages that end before their content does.
var ErrTruncated = errors.New("message is cut short")

// Message is one netlink message. Data aliases the buffer that it was read into.
type Message struct {
	Type  uint16 // unix.RTM_...
	Flags uint16 // unix.NLM_F_...
	Seq   uint32
	Data  []byte // what follows the netlink header
}

// Next splits off the first message of a buffer.
func Next(b []byte) (msg Message, rest []byte, err error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return Message{}, nil, fmt.Errorf("netlink header of %d bytes: %w", len(b), ErrTruncated)
	}
	n := binary.NativeEndian.Uint32(b)
	if n < unix.NLMSG_HDRLEN || uint64(n) > uint64(len(b)) {
		return Message{}, nil, fmt.Errorf("netlink message of %d bytes in a buffer of %d: %w", n, len(b), ErrTruncated)
	}
	return Message{
		Type:  binary.NativeEndian.Uint16(b[4:]),
		Flags: binary.NativeEndian.Uint16(b[6:]),
		Seq:   binary.NativeEndian.Uint32(b[8:]),
		Data:  b[unix.NLMSG_HDRLEN:n],
	}, b[min(align(int(n)), len(b)):], nil
}

// Err is the error that an NLMSG_ERROR message carries, nil for an acknowledgement.
func (m Message) Err() error {
	if len(m.Data) < 4 {
		return fmt.Errorf("netlink error: %w", ErrTruncated)
	}
	if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}

// align rounds up to the 4 bytes at which messages and attributes begin.
func align(n int) int { return (n + 3) &^ 3 }
