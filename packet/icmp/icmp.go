// Package icmp builds the ICMP and ICMPv6 errors of a router and says when none
// may be sent.
//
// A packet that is not forwarded arrives with the reason as a Cause. Suppressed
// rules out those about which nobody may be told, a Limiter those about which
// nobody is told now, and Build writes the error, a whole IP packet, into the
// caller's buffer. Nothing allocates.
//
// The rules are those of RFC 792, RFC 1812 4.3 and RFC 1191 for IPv4, of RFC 4443
// and RFC 8201 for IPv6. Errors carry no extensions (RFC 4884). Errors about
// packets with IPv4 options are not sent back along a source route (RFC 1812
// 4.3.2.6): such packets are Linux's.
package icmp

import "net/netip"

// Cause is what kept a packet from being forwarded, in terms that both families
// share.
type Cause uint8

const (
	TimeExceeded       Cause = iota // TTL or hop limit ran out in transit
	NoRoute                         // no route covers the destination
	HostUnreachable                 // the destination, or the gateway to it, does not answer
	Prohibited                      // forwarding is forbidden by an operator
	TooBig                          // for the link or tunnel ahead, and not to be fragmented
	BeyondScope                     // the source address is not valid where the packet is going
	ParameterProblem                // a header field has a wrong value
	UnrecognizedHeader              // IPv6: a next header is not known here
	UnrecognizedOption              // IPv6: an option asks for an error where it is not known
	numCauses
)

// Error is an error to be sent.
type Error struct {
	Cause Cause
	Info  uint32 // TooBig: the MTU ahead, in bytes; wrong headers: the offset of the first wrong byte; else 0
}

type typeAndCode struct{ typ, code uint8 }

// types has the ICMP and ICMPv6 type and code of each cause. Where IPv4 has no
// error of its own, it has the one that comes nearest.
var types = [numCauses]struct{ v4, v6 typeAndCode }{
	TimeExceeded:       {typeAndCode{11, 0}, typeAndCode{3, 0}},
	NoRoute:            {typeAndCode{3, 0}, typeAndCode{1, 0}},
	HostUnreachable:    {typeAndCode{3, 1}, typeAndCode{1, 3}},
	Prohibited:         {typeAndCode{3, 13}, typeAndCode{1, 1}},
	TooBig:             {typeAndCode{3, 4}, typeAndCode{2, 0}},
	BeyondScope:        {typeAndCode{3, 1}, typeAndCode{1, 2}},
	ParameterProblem:   {typeAndCode{12, 0}, typeAndCode{4, 0}},
	UnrecognizedHeader: {typeAndCode{12, 0}, typeAndCode{4, 1}},
	UnrecognizedOption: {typeAndCode{12, 0}, typeAndCode{4, 2}},
}

var causeNames = [numCauses]string{
	"time exceeded", "no route", "host unreachable", "prohibited", "too big", "beyond scope of source address",
	"parameter problem", "unrecognized next header", "unrecognized option",
}

func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return "unknown cause"
}

// Dummy is the source of IPv4 errors where a router has no IPv4 address (RFC
// 7600).
var Dummy = netip.AddrFrom4([4]byte{192, 0, 0, 8})
