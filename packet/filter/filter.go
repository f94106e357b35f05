// Package filter matches frames against expressions of pcap-filter(7), as in tcpdump: Parse builds a
// tree of comparisons, and Match evaluates it on a frame.
//
// It supports Ethernet frames with IPv4, IPv6 and ARP. A supported expression means the same as in
// libpcap, which the tests compare; an unsupported one (VLANs, MPLS, host names) is an error. As in
// libpcap, a frame that ends before a byte that the expression reads does not match, even under "not".
package filter

import "encoding/binary"

// Filter is a parsed expression. The zero Filter matches every frame. It is safe for concurrent use.
type Filter struct{ root *node }

// Match reports whether a frame, from its Ethernet header on, matches. It does not allocate.
func (f *Filter) Match(frame []byte) bool { return f.root == nil || f.root.match(frame) == yes }

// node is a comparison or a logical operator.
type node struct {
	op   string // "and", "or", "not", or a comparison: "==", ">", ">=", "<", "<=", "!="
	a, b *node  // operands of and, or, not
	l, r *value // operands of a comparison
}

// answer is the result of a node.
type answer uint8

const (
	no answer = iota
	yes
	cut // the frame is too short: the whole filter does not match
)

func (n *node) match(frame []byte) answer {
	switch n.op {
	case "not":
		switch n.a.match(frame) {
		case no:
			return yes
		case yes:
			return no
		}
		return cut
	case "and":
		if a := n.a.match(frame); a != yes {
			return a
		}
		return n.b.match(frame)
	case "or":
		if a := n.a.match(frame); a != no {
			return a
		}
		return n.b.match(frame)
	}
	l, ok := n.l.of(frame)
	r, too := n.r.of(frame)
	if !ok || !too {
		return cut
	}
	is := false
	switch n.op {
	case "==":
		is = l == r
	case "!=":
		is = l != r
	case ">":
		is = l > r
	case ">=":
		is = l >= r
	case "<":
		is = l < r
	case "<=":
		is = l <= r
	}
	if is {
		return yes
	}
	return no
}

// value is a 32-bit number: a constant, the frame's length, bytes of the frame, or the result of an
// arithmetic operator.
type value struct {
	op   kind
	n    uint32 // the constant, or an offset in addition to a
	size int    // bytes of a load: 1, 2 or 4
	a, b *value

	closed bool // in parentheses
}

// joins reports whether the value is an operator's result.
func (v *value) joins() bool { return v.b != nil }

type kind string

const (
	constant kind = "constant"
	length   kind = "len"
	fixed    kind = "load" // at n + a, from the start of the frame
	behind   kind = "behind"
	// behind is a load at n + a from the end of the IPv4 header. Other kinds are operators:
	// + - * / % & | ^ << >>.
)

// of evaluates the value for a frame. It is not ok if the frame is too short or on division by zero.
func (v *value) of(frame []byte) (uint32, bool) {
	switch v.op {
	case constant:
		return v.n, true
	case length:
		return uint32(len(frame)), true
	}
	var a, b uint32
	ok := true
	if v.a != nil {
		if a, ok = v.a.of(frame); !ok {
			return 0, false
		}
	}
	switch v.op {
	case fixed:
		return load(frame, uint64(v.n)+uint64(a), v.size)
	case behind:
		const ip = 14
		if len(frame) <= ip {
			return 0, false
		}
		return load(frame, ip+uint64(frame[ip]&0xf)*4+uint64(v.n)+uint64(a), v.size)
	}
	if b, ok = v.b.of(frame); !ok {
		return 0, false
	}
	switch v.op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		if b == 0 {
			return 0, false
		}
		return a / b, true
	case "%":
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case "&":
		return a & b, true
	case "|":
		return a | b, true
	case "^":
		return a ^ b, true
	case "<<":
		return a << b, true
	case ">>":
		return a >> b, true
	}
	return 0, false
}

// load reads size bytes in network byte order.
func load(frame []byte, at uint64, size int) (uint32, bool) {
	if at+uint64(size) > uint64(len(frame)) {
		return 0, false
	}
	switch b := frame[at:]; size {
	case 1:
		return uint32(b[0]), true
	case 2:
		return uint32(binary.BigEndian.Uint16(b)), true
	}
	return binary.BigEndian.Uint32(frame[at:]), true
}
