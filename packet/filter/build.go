package filter

import (
	"encoding/binary"
	"net/netip"
)

// What primitives are made of. Offsets are counted from the frame's first byte.
var (
	isIPv4 = etherType(0x0800)
	isIPv6 = etherType(0x86dd)
	// notLaterFragment holds of an IPv4 packet that has its transport header.
	notLaterFragment = &node{op: "==", l: &value{op: "&", a: &value{op: fixed, n: 20, size: 2}, b: number(0x1fff)}, r: number(0)}
)

// compare is of size bytes with a number.
func compare(at uint32, size int, with uint32) *node {
	return &node{op: "==", l: &value{op: fixed, n: at, size: size}, r: number(with)}
}

func etherType(t uint32) *node    { return compare(12, 2, t) }
func ipv4Protocol(n uint32) *node { return compare(23, 1, n) }

// ipv6Protocol looks behind a fragment header and no other, as libpcap does.
func ipv6Protocol(n uint32) *node {
	return all(isIPv6, either(compare(20, 1, n), all(compare(20, 1, 44), compare(54, 1, n))))
}

func protocol(n uint32) *node { return either(all(isIPv4, ipv4Protocol(n)), ipv6Protocol(n)) }

// group is that of frames to many: of a link (ether), or of an IP version.
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

// directed joins what holds of a source and of a destination.
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

// inPrefix holds of an address at an offset that a prefix contains.
func inPrefix(at uint32, p netip.Prefix) *node {
	b := p.Addr().AsSlice()
	var parts []*node
	for i := 0; i < len(b); i += 4 { // words that do not matter have to be there, too
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
