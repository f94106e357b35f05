package policy

// Flow holds the selectors of a packet: addresses, protocol and ports.
type Flow struct {
	src, dst     key
	sport, dport uint32
	protocol     uint8
	wide         bool // IPv6
}

// NoPort is the port of a flow of a protocol without ports. It matches no range but any. (Linux uses
// 0 instead, so a range that includes 0 also matches such flows.)
const NoPort uint32 = 1 << 16

// HiddenPort is both ports of a fragment, which shows none. It matches a policy of any range that
// protects or discards, and a bypass policy only if all its ports are any. So a packet cannot be
// fragmented to escape a policy: fragments get the stricter result. (In Linux fragments have port 0,
// and do not match policies with ports.)
const HiddenPort uint32 = 1<<16 + 1

// HiddenProtocol is the protocol of a flow without visible protocol and ports: a later IPv6 fragment
// of a packet with more extension headers. It matches like HiddenPort.
const HiddenProtocol = 44 // the Fragment header, which is no flow's protocol otherwise

// IPv4Flow returns a flow between addresses in host byte order.
func IPv4Flow(src, dst uint32, protocol uint8, sport, dport uint32) (f Flow) {
	f.SetIPv4(src, dst, protocol, sport, dport)
	return f
}

// IPv6Flow returns a flow between addresses in network byte order.
func IPv6Flow(src, dst *[16]byte, protocol uint8, sport, dport uint32) (f Flow) {
	f.SetIPv6(src, dst, protocol, sport, dport)
	return f
}

// SetIPv4 is IPv4Flow in place: a copy would wait for the stores of its parts.
func (f *Flow) SetIPv4(src, dst uint32, protocol uint8, sport, dport uint32) {
	f.src, f.dst = ipv4Key(src), ipv4Key(dst)
	f.sport, f.dport, f.protocol, f.wide = sport, dport, protocol, false
}

// SetIPv6 is IPv6Flow in place.
func (f *Flow) SetIPv6(src, dst *[16]byte, protocol uint8, sport, dport uint32) {
	f.src, f.dst = ipv6Key(src), ipv6Key(dst)
	f.sport, f.dport, f.protocol, f.wide = sport, dport, protocol, true
}

// IPv6 reports whether the flow is one of IPv6.
func (f *Flow) IPv6() bool { return f.wide }

// ICMPError reports whether a flow is ICMP or ICMPv6 errors, which quote a packet.
func (f *Flow) ICMPError() bool {
	const icmp, icmpv6 = 1, 58
	const errors = 1<<3 | 1<<4 | 1<<5 | 1<<11 | 1<<12 // ICMP types; ICMPv6 errors are below 128
	if f.wide {
		return f.protocol == icmpv6 && f.sport < 128
	}
	return f.protocol == icmp && f.sport < 32 && errors>>f.sport&1 != 0
}

// matches reports whether a flow has a policy's protocol and ports.
func (f *Flow) matches(p *entry) bool {
	protocol := uint8(p[1])
	return (protocol == 0 || protocol == f.protocol) &&
		(p[1]&anySrcPort != 0 || inRange(f.sport, p[2])) &&
		(p[1]&anyDstPort != 0 || inRange(f.dport, p[3])) ||
		f.sport == HiddenPort && f.mayMatch(p)
}

// mayMatch is matches for a flow with hidden ports.
func (f *Flow) mayMatch(p *entry) bool {
	protocol := uint8(p[1])
	return Verdict(p[1]>>verdictAt).Action() != Bypass && (protocol == 0 || protocol == f.protocol || f.protocol == HiddenProtocol)
}

func inRange(port, ports uint32) bool {
	first, last := ports&0xffff, ports>>16
	return first <= port && port <= last
}
