package xfrm

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

// selector is struct xfrm_selector.
type selector struct {
	family       uint16
	src, dst     netip.Prefix
	protocol     uint8
	sport, dport portMask
	ifindex      int32
	user         uint32
}

// portMask is a port with a bit mask.
type portMask struct{ port, mask uint16 }

// readSelector parses a struct xfrm_selector.
func readSelector(b []byte) selector {
	s := selector{
		family:   host.Uint16(b[40:]),
		protocol: b[44],
		dport:    portMask{binary.BigEndian.Uint16(b[32:]), binary.BigEndian.Uint16(b[34:])},
		sport:    portMask{binary.BigEndian.Uint16(b[36:]), binary.BigEndian.Uint16(b[38:])},
		ifindex:  int32(host.Uint32(b[48:])),
		user:     host.Uint32(b[52:]),
	}
	prefix := func(at int, bits uint8) netip.Prefix {
		return netip.PrefixFrom(address(b[at:], s.family), int(bits)).Masked()
	}
	s.dst, s.src = prefix(0, b[42]), prefix(16, b[43])
	return s
}

// restricted reports whether the selector has more than addresses.
func (s *selector) restricted() bool {
	return s.protocol != 0 || s.sport.mask|s.dport.mask != 0 || s.ifindex != 0 || s.user != 0
}

// known reports whether an address family is supported.
func known(family uint16) bool { return family == unix.AF_INET || family == unix.AF_INET6 }

// portRange returns the ports of p. A mask that is not a prefix is an error.
func (p portMask) portRange() (ipsecpolicy.PortRange, error) {
	rest := ^p.mask
	if rest&(rest+1) != 0 {
		return ipsecpolicy.PortRange{}, fmt.Errorf("port %d with mask %#04x is not a range", p.port, p.mask)
	}
	first := p.port & p.mask
	return ipsecpolicy.Ports(first, first|rest), nil
}

// hasPorts reports whether policies for a protocol can have ports; 0 is any protocol.
func hasPorts(protocol uint8) bool {
	switch protocol {
	case 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_DCCP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE,
		unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_MH:
		return true
	}
	return false
}
