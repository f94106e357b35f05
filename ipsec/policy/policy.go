package policy

import (
	"fmt"
	"net/netip"
)

// Policy gives the flows of a selector an action. Source and destination are those of the packet to
// protect, which is the inner one of a tunnel.
type Policy struct {
	Src, Dst netip.Prefix // of one family, masked
	Protocol uint8        // IP protocol, or IPv6's last next header; 0 for any

	// SrcPorts and DstPorts apply to protocols with ports. As in Linux, the type of ICMP, ICMPv6 and
	// Mobility headers is the source port, and the code the destination port.
	SrcPorts, DstPorts PortRange

	Action Action
	Target uint32 // with Protect: the caller's tunnel number; at most MaxTarget
}

// Action of a policy. The zero value is Discard.
type Action uint8

const (
	Discard Action = iota // drop the packet
	Bypass                // pass it in cleartext
	Protect               // encrypt it by the tunnel that Target names
	Refuse                // drop the packet: the policy is not supported
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

// PortRange is a range of ports. The zero value is any port, including none.
type PortRange struct {
	first, last uint16
	some        bool // not any
}

// Ports returns the range from first to last, both included. 0 to 65535 is any.
func Ports(first, last uint16) PortRange {
	if first == 0 && last == 1<<16-1 {
		return PortRange{}
	}
	return PortRange{first, last, true}
}

// Port returns the range of one port.
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

// Everything reports whether the policy matches every flow of its family.
func (p *Policy) Everything() bool {
	return p.Src.Bits() == 0 && p.Dst.Bits() == 0 && p.Protocol == 0 && !p.SrcPorts.some && !p.DstPorts.some
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
			return fmt.Errorf("prefix missing or invalid; use 0.0.0.0/0 or ::/0 for any")
		case x != x.Masked():
			return fmt.Errorf("%v has address bits beyond the prefix length; did you mean %v?", x, x.Masked())
		}
	}
	switch {
	case p.Src.Addr().BitLen() != p.Dst.Addr().BitLen():
		return fmt.Errorf("the prefixes are of two families; use one policy per family")
	case p.SrcPorts.first > p.SrcPorts.last || p.DstPorts.first > p.DstPorts.last:
		return fmt.Errorf("a range of ports ends before it begins")
	case p.Action > Refuse:
		return fmt.Errorf("%v is not discard, bypass, protect or refuse", p.Action)
	case p.Target > MaxTarget:
		return fmt.Errorf("target %d is larger than %d", p.Target, MaxTarget)
	case p.Target != 0 && p.Action != Protect:
		return fmt.Errorf("target %d has no meaning for %v", p.Target, p.Action)
	}
	return nil
}
