// Package rtnl reads links, addresses, routes, next-hop objects, neighbors and rules of Linux over
// rtnetlink.
//
// Unlike general netlink libraries, it receives all groups on one socket, which preserves the
// order of events, reads batches of messages into one buffer, and parses into reusable structs, so
// that reading 1,000,000 routes does not allocate per route.
//
//	kernel ─► Listener.Receive (events) ─┐
//	kernel ─► Conn.Dump (state)         ─┴► Next ─► Message ─► (*Route).Parse ...
//
// Parsers accept any input: truncated or malformed data is an error, unknown attributes are
// skipped.
//
// Sockets, requests and attributes also serve other netlink families, such as xfrm and netfilter.
package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrTruncated is wrapped by errors about truncated messages.
var ErrTruncated = errors.New("message is cut short")

// Message is a netlink message. Data aliases the receive buffer.
type Message struct {
	Type  uint16 // unix.RTM_...
	Flags uint16 // unix.NLM_F_...
	Seq   uint32
	Data  []byte // payload after the netlink header
}

// Next returns the first message of a buffer and the remaining buffer.
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

// Parse parses the data of a message and calls apply with the result.
func Parse[T any, P interface {
	*T
	Parse(data []byte) error
}](msg Message, apply func(P)) error {
	p := P(new(T))
	if err := p.Parse(msg.Data); err != nil {
		return err
	}
	apply(p)
	return nil
}

// Err returns the error of an NLMSG_ERROR message, nil for an acknowledgement.
func (m Message) Err() error {
	if len(m.Data) < 4 {
		return fmt.Errorf("netlink error: %w", ErrTruncated)
	}
	if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}

// align rounds up to NLMSG_ALIGNTO and RTA_ALIGNTO, 4 bytes.
func align(n int) int { return (n + 3) &^ 3 }
