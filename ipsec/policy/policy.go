package policy

import (
	"fmt"
	"net/netip"
)

// Policy says what becomes of the flows that its selector names. A flow's
// source and destination are those of the packet that may be protected, that
// is the inner one of a tunnel.
type Policy struct {
	Src, Dst netip.Prefix // of one family, without address bits beyond the length
	Protocol uint8        // IP protocol, or IPv6's last next header; 0 for any

	// SrcPorts and DstPorts are of protocols that have ports. As in Linux, the type
	// of ICMP and ICMPv6 (and of Mobility headers) counts as the source port, and
	// the code as the destination port.
	SrcPorts, DstPorts PortRange

	Action Action
	Target uint32 // for Protect: the caller's bundle of security associations; at most MaxTarget
}

// Action is what becomes of a packet. The zero value discards it.
type Action uint8

const (
	Discard Action = iota // drop the packet
	Bypass                // pass it in clear
	Protect               // have it protected by the bundle that Target names
	Refuse                // drop the packet: what the policy demands is not supported
)

// MaxTarget is the largest Target.
const MaxTarget = 1<<20 - 1

func (a Action) String() string {
	switch a {
	case Discard:
		return "discard"
	case Bypass:
		return "bypass"
	case Protect:
		return "protect"
	case Refuse:
		return "refuse"
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// PortRange is a range of ports. The zero value is any port, and none as well.
type PortRange struct {
	first, last uint16
	some        bool // not any
}

// Ports is the range of ports from first to last, both included. From 0 to 65535
// it is any.
func Ports(first, last uint16) PortRange {
	if first == 0 && last == 1<<16-1 {
		return PortRange{}
	}
	return PortRange{first, last, true}
}

// Port is the range of one port.
func Port(port uint16) PortRange { return Ports(port, port) }

func (r PortRange) String() string {
	switch {
	case !r.some:
		return "any"
	case r.first == r.last:
		return fmt.Sprint(r.first)
	}
	return fmt.Sprintf("%d-%d", r.first, r.last)
}

func (p *Policy) String() string {
	s := fmt.Sprintf("%v to %v", p.Src, p.Dst)
	if p.Protocol != 0 {
		s += fmt.Sprintf(" protocol %d", p.Protocol)
	}
	if p.SrcPorts.some || p.DstPorts.some {
		s += fmt.Sprintf(" ports %v to %v", p.SrcPorts, p.DstPorts)
	}
	return s
}

func (p *Policy) check() error {
	for _, x := range []netip.Prefix{p.Src, p.Dst} {
		switch {
		case !x.IsValid():
			return fmt.Errorf("a prefix is missing or not valid; any is 0.0.0.0/0 or ::/0")
		case x != x.Masked():
			return fmt.Errorf("%v has address bits beyond the prefix length; did you mean %v?", x, x.Masked())
		}
	}
	switch {
	case p.Src.Addr().BitLen() != p.Dst.Addr().BitLen():
		return fmt.Errorf("the prefixes are of two families; a policy is of one")
	case p.SrcPorts.first > p.SrcPorts.last || p.DstPorts.first > p.DstPorts.last:
		return fmt.Errorf("a range of ports ends before it begins")
	case p.Action > Refuse:
		return fmt.Errorf("%v is not discard, bypass, protect or refuse", p.Action)
	case p.Target > MaxTarget:
		return fmt.Errorf("target %d is larger than %d", p.Target, MaxTarget)
	case p.Target != 0 && p.Action != Protect:
		return fmt.Errorf("target %d is of no use to %v", p.Target, p.Action)
	}
	return nil
}
