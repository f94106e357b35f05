// Package icmp builds a router's ICMP and ICMPv6 errors, and decides when none may be sent.
//
// A packet that is not forwarded has a Cause. Suppressed excludes packets about which errors are
// forbidden, a Limiter limits rates, and Build writes the error, a whole IP packet, to the caller's
// buffer. Nothing allocates.
//
// The rules are those of RFC 792, RFC 1812 section 4.3 and RFC 1191 for IPv4, and of RFC 4443 and RFC 8201
// for IPv6. Errors have no extensions (RFC 4884). Errors about packets with IPv4 options do not follow a
// source route back (RFC 1812 section 4.3.2.6): such packets go to Linux.
package icmp

import "net/netip"

// Cause is the reason why a packet is not forwarded, for both families.
type Cause uint8

const (
	TimeExceeded       Cause = iota // TTL or hop limit exceeded in transit
	NoRoute                         // no route to the destination
	HostUnreachable                 // destination or gateway does not answer
	Prohibited                      // administratively prohibited
	TooBig                          // larger than the MTU, and must not be fragmented
	BeyondScope                     // beyond the scope of the source address
	ParameterProblem                // erroneous header field
	UnrecognizedHeader              // IPv6: unrecognized next header
	UnrecognizedOption              // IPv6: unrecognized option that requests an error
	numCauses
)

// Error describes an error to send.
type Error struct {
	Cause Cause
	Info  uint32 // TooBig: MTU in bytes; parameter problems: offset of the first wrong byte; else 0
}

type typeAndCode struct{ typ, code uint8 }

// types maps causes to ICMP and ICMPv6 type and code. Causes without an IPv4 error use the nearest one.
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

// Dummy is the source of IPv4 errors of a router without an IPv4 address (RFC 7600).
var Dummy = netip.AddrFrom4([4]byte{192, 0, 0, 8})
