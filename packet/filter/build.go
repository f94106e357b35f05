package filter

import (
	"encoding/binary"
	"net/netip"
)

// Building blocks of primitives. Offsets are relative to the frame.
var (
	isIPv4 = etherType(0x0800)
	isIPv6 = etherType(0x86dd)
	// notLaterFragment matches an IPv4 packet with a transport header.
	notLaterFragment = &node{op: "==", l: &value{op: "&", a: &value{op: fixed, n: 20, size: 2}, b: number(0x1fff)}, r: number(0)}
)

// compare compares size bytes with a number.
func compare(at uint32, size int, with uint32) *node {
	return &node{op: "==", l: &value{op: fixed, n: at, size: size}, r: number(with)}
}

func etherType(t uint32) *node    { return compare(12, 2, t) }
func ipv4Protocol(n uint32) *node { return compare(23, 1, n) }

// ipv6Protocol looks behind a fragment header only, as libpcap does.
func ipv6Protocol(n uint32) *node {
	return all(isIPv6, either(compare(20, 1, n), all(compare(20, 1, 44), compare(54, 1, n))))
}

func protocol(n uint32) *node { return either(all(isIPv4, ipv4Protocol(n)), ipv6Protocol(n)) }

// group matches multicast frames (ether) or packets (ip, ip6).
func group(proto, which string) *node {
	switch {
	case proto == "ether" && which == "broadcast":
		return all(compare(2, 4, 0xffffffff), compare(0, 2, 0xffff))
	case proto == "ether":
		return &node{op: "!=", l: &value{op: "&", a: &value{op: fixed, size: 1}, b: number(1)}, r: number(0)}
	case proto == "ip" && which == "multicast":
		return all(isIPv4, &node{op: ">=", l: &value{op: fixed, n: 30, size: 1}, r: number(224)})
	case proto == "ip6" && which == "multicast":
		return all(isIPv6, compare(38, 1, 255))
	}
	return nil
}

// directed combines matches of source and destination by the qualifier's direction.
func directed(dir string, src, dst *node) *node {
	switch dir {
	case "src":
		return src
	case "dst":
		return dst
	case "and":
		return all(src, dst)
	}
	return either(src, dst)
}

// inPrefix matches an address at an offset that is in a prefix.
func inPrefix(at uint32, p netip.Prefix) *node {
	b := p.Addr().AsSlice()
	var parts []*node
	for i := 0; i < len(b); i += 4 { // words outside of the mask must exist, too
		mask := ^uint32(0) << (32 - min(max(p.Bits()-i*8, 0), 32))
		v := &value{op: "&", a: &value{op: fixed, n: at + uint32(i), size: 4}, b: number(mask)}
		parts = append(parts, &node{op: "==", l: v, r: number(binary.BigEndian.Uint32(b[i:]))})
	}
	return all(parts...)
}

func all(nodes ...*node) *node    { return join("and", nodes) }
func either(nodes ...*node) *node { return join("or", nodes) }

func join(op string, nodes []*node) *node {
	n := nodes[0]
	for _, b := range nodes[1:] {
		n = &node{op: op, a: n, b: b}
	}
	return n
}
