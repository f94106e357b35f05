package policy

// Flow is what policies select by: the addresses of a packet, its protocol and ports.
type Flow struct {
	src, dst     key
	sport, dport uint32
	protocol     uint8
	wide         bool // IPv6
}

// NoPort is the port of a flow that has none: of a protocol without ports. It is in no
// range but any. (Linux takes 0 instead, so that a range with 0 in it also gets what
// has no ports.)
const NoPort uint32 = 1 << 16

// HiddenPort is both ports of a flow that does not show them: of a fragment. It matches a
// policy of any range that protects or discards, and none that bypasses, unless all its
// ports are any. So a packet cannot be cut to escape a policy: where its ports might
// make a difference, the fragments are decided on as if they made the stricter one.
// (To Linux fragments have port 0, and pass by the policies of ports.)
const HiddenPort uint32 = 1<<16 + 1

// HiddenProtocol is the protocol of a flow that shows neither that nor ports: of an IPv6
// fragment behind the first, where that has more extension headers. It matches as ports do.
const HiddenProtocol = 44 // the Fragment header's, which nothing else has

// IPv4Flow is a flow between addresses in host byte order.
func IPv4Flow(src, dst uint32, protocol uint8, sport, dport uint32) (f Flow) {
	f.SetIPv4(src, dst, protocol, sport, dport)
	return f
}

// IPv6Flow is a flow between addresses in network byte order.
func IPv6Flow(src, dst *[16]byte, protocol uint8, sport, dport uint32) (f Flow) {
	f.SetIPv6(src, dst, protocol, sport, dport)
	return f
}

// SetIPv4 makes a flow what IPv4Flow returns, where it lies: a copy would wait for the
// stores of what it is made of.
func (f *Flow) SetIPv4(src, dst uint32, protocol uint8, sport, dport uint32) {
	f.src, f.dst = ipv4Key(src), ipv4Key(dst)
	f.sport, f.dport, f.protocol, f.wide = sport, dport, protocol, false
}

// SetIPv6 does the same for IPv6Flow.
func (f *Flow) SetIPv6(src, dst *[16]byte, protocol uint8, sport, dport uint32) {
	f.src, f.dst = ipv6Key(src), ipv6Key(dst)
	f.sport, f.dport, f.protocol, f.wide = sport, dport, protocol, true
}

// ICMPError reports whether a flow is of ICMP or ICMPv6 errors, which quote a packet.
func (f *Flow) ICMPError() bool {
	const icmp, icmpv6 = 1, 58
	const errors = 1<<3 | 1<<4 | 1<<5 | 1<<11 | 1<<12 // types of ICMP; ICMPv6's are those below 128
	if f.wide {
		return f.protocol == icmpv6 && f.sport < 128
	}
	return f.protocol == icmp && f.sport < 32 && errors>>f.sport&1 != 0
}

// matches reports whether a flow is of a policy's protocol and ports.
func (f *Flow) matches(p *entry) bool {
	protocol := uint8(p[1])
	return (protocol == 0 || protocol == f.protocol) &&
		(p[1]&anySrcPort != 0 || inRange(f.sport, p[2])) &&
		(p[1]&anyDstPort != 0 || inRange(f.dport, p[3])) ||
		f.sport == HiddenPort && f.mayMatch(p)
}

// mayMatch is matches for a flow whose ports are hidden.
func (f *Flow) mayMatch(p *entry) bool {
	protocol := uint8(p[1])
	return Verdict(p[1]>>verdictAt).Action() != Bypass && (protocol == 0 || protocol == f.protocol || f.protocol == HiddenProtocol)
}

func inRange(port, ports uint32) bool {
	first, last := ports&0xffff, ports>>16
	return first <= port && port <= last
}
