// Package filter chooses frames by expressions of pcap-filter(7), as tcpdump takes
// them: Parse makes a tree of comparisons, and Match walks it over a frame.
//
// It knows what a router's ports carry: Ethernet frames with IPv4, IPv6 and ARP. An
// expression that it takes means what it means to libpcap, which the tests compare it
// with; one that it does not take (VLANs, MPLS, names of hosts) is an error. As there, a
// frame that ends before a byte that is asked for does not match, whatever "not" stands
// before it.
package filter

import "encoding/binary"

// Filter is a parsed expression. The zero Filter matches every frame. It may be used by
// any number of goroutines.
type Filter struct{ root *node }

// Match reports whether a frame, which starts with its Ethernet header, is one of those
// that the expression describes. It does not allocate.
func (f *Filter) Match(frame []byte) bool { return f.root == nil || f.root.match(frame) == yes }

// node is a comparison, or what joins comparisons.
type node struct {
	op   string // "and", "or", "not", or a comparison: "==", ">", ">=", "<", "<=", "!="
	a, b *node  // joined
	l, r *value // compared
}

// answer is that of a node to a frame.
type answer uint8

const (
	no answer = iota
	yes
	cut // the frame ends too early: the whole filter says no
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

// value is a number: a constant, the frame's length, bytes of the frame, or what
// arithmetic makes of others, in 32 bits.
type value struct {
	op   kind
	n    uint32 // the constant; where the bytes are, beside a
	size int    // of a load, in bytes: 1, 2 or 4
	a, b *value

	closed bool // parentheses were around it
}

// joins reports whether the value is what an operator makes of two.
func (v *value) joins() bool { return v.b != nil }

type kind string

const (
	constant kind = "constant"
	length   kind = "len"
	fixed    kind = "load" // from n + a, counted from the frame's first byte
	behind   kind = "behind"
	// behind is a load from n + a, counted from the end of the IPv4 header. Other kinds
	// are the operators themselves: + - * / % & | ^ << >>.
)

// of returns the value for a frame; false where the frame is too short, or something is
// divided by zero.
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

// load reads size bytes, the first one uppermost.
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
