package filter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds on expressions, which any user of the control socket can send.
const (
	maxLength = 4096
	maxDepth  = 64
)

// Parse parses an expression. An empty one matches every frame. Errors name the column of the
// mistake.
func Parse(expr string) (*Filter, error) {
	if len(expr) > maxLength {
		return nil, fmt.Errorf("filter: %d characters exceed the limit of %d", len(expr), maxLength)
	}
	tokens, err := lex(expr)
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", expr, err)
	}
	if len(tokens) == 0 {
		return &Filter{}, nil
	}
	p := &parser{tokens: tokens, end: len(expr)}
	root, err := p.alternatives(0)
	if err == nil && p.at < len(p.tokens) {
		err = p.unexpected("and, or, or the end")
	}
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w; pcap-filter(7) has the syntax", expr, err)
	}
	return &Filter{root}, nil
}

// parser reads tokens from left to right.
type parser struct {
	tokens []token
	at     int
	end    int
	last   *qualifiers // of the previous primitive, for a following bare value
}

// peek returns the next token, "" at the end.
func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at].text
	}
	return ""
}

// take consumes the next token if it is one of those given.
func (p *parser) take(texts ...string) bool {
	next := p.peek()
	for _, t := range texts {
		if next == t && next != "" {
			p.at++
			return true
		}
	}
	return false
}

func (p *parser) unexpected(want string) error {
	if p.at < len(p.tokens) {
		return fmt.Errorf("column %d: found %q, expected %s", p.tokens[p.at].at+1, p.peek(), want)
	}
	return fmt.Errorf("column %d: the expression ends, expected %s", p.end+1, want)
}

// alternatives parses terms with "and" and "or". Both have the same precedence, from the left.
func (p *parser) alternatives(depth int) (*node, error) {
	n, err := p.term(depth, false)
	for err == nil {
		op := ""
		switch {
		case p.take("and", "&&"):
			op = "and"
		case p.take("or", "||"):
			op = "or"
		default:
			return n, nil
		}
		var b *node
		if b, err = p.term(depth, true); err == nil {
			n = &node{op: op, a: n, b: b}
		}
	}
	return nil, err
}

var errDeep = errors.New("is nested too deeply")

// term parses one primitive or a parenthesized expression, possibly negated. After another one it may be
// a bare value.
func (p *parser) term(depth int, behind bool) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	if p.take("not", "!") {
		n, err := p.term(depth+1, behind)
		return negate(n), err
	}
	start, last := p.at, p.last
	if n, err := p.relation(depth); err == nil {
		p.last = nil
		return n, nil
	} else if errors.Is(err, errRelation) {
		return nil, err
	}
	p.at, p.last = start, last
	if p.take("(") {
		n, err := p.alternatives(depth + 1)
		if err == nil && !p.take(")") {
			err = p.unexpected(`")"`)
		}
		return n, err
	}
	return p.primitive(behind)
}

func negate(n *node) *node {
	if n == nil {
		return nil
	}
	return &node{op: "not", a: n}
}

// errRelation is wrapped by errors of expressions that can only be comparisons.
var errRelation = errors.New("comparison")

// relation parses a comparison of numbers.
func (p *parser) relation(depth int) (*node, error) {
	var needs []*node
	l, err := p.arithmetic(0, depth, &needs)
	if err != nil {
		return nil, err
	}
	op := p.peek()
	if !p.take("==", "=", "!=", "<", "<=", ">", ">=") {
		return nil, p.unexpected("a comparison")
	}
	if op == "=" {
		op = "=="
	}
	r, err := p.arithmetic(0, depth, &needs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRelation, err)
	}
	return all(append(needs, &node{op: op, l: l, r: r})...), nil
}

// precedence lists the operators of arithmetic, the weakest first. libpcap's precedence of % and ^ is
// an accident of its grammar, so these need parentheses here.
var precedence = [][]string{{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}}

// arithmetic parses a number, and adds the conditions under which a frame has it to needs.
func (p *parser) arithmetic(level, depth int, needs *[]*node) (*value, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	if level == len(precedence) {
		return p.operand(depth, needs)
	}
	v, err := p.arithmetic(level+1, depth, needs)
	for err == nil {
		op := p.peek()
		if !p.take(precedence[level]...) {
			return v, nil
		}
		var b *value
		if b, err = p.arithmetic(level+1, depth, needs); err == nil {
			v = &value{op: kind(op), a: v, b: b}
			err = p.ambiguous(v)
		}
	}
	return nil, err
}

// ambiguous refuses % and ^ beside other operators.
func (p *parser) ambiguous(v *value) error {
	for _, x := range []*value{v.a, v.b} {
		if x.joins() && !x.closed && (odd(v.op) || odd(x.op)) {
			return fmt.Errorf("%w: column %d: %% and ^ need parentheses beside other operators, as in (len %% 4) + 1", errRelation, p.tokens[p.at-1].at+1)
		}
	}
	return nil
}

func odd(op kind) bool { return op == "%" || op == "^" }

// operand parses an operand of arithmetic.
func (p *parser) operand(depth int, needs *[]*node) (*value, error) {
	if p.take("(") {
		v, err := p.arithmetic(0, depth+1, needs)
		if err == nil && !p.take(")") {
			err = p.unexpected(`")"`)
		}
		if err == nil {
			v.closed = true
		}
		return v, err
	}
	if p.take("-") {
		v, err := p.operand(depth+1, needs)
		return &value{op: "-", a: number(0), b: v}, err
	}
	word := p.peek()
	if word == "len" {
		p.at++
		return &value{op: length}, nil
	}
	if n, ok := named[word]; ok {
		p.at++
		return number(n), nil
	}
	if n, err := strconv.ParseUint(word, 0, 32); err == nil {
		p.at++
		return number(uint32(n)), nil
	}
	if l, ok := layers[word]; ok && p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "[" {
		p.at += 2
		v, err := p.bytes(l, depth, needs)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRelation, err)
		}
		return v, nil
	}
	return nil, p.unexpected("a number")
}

// bytes parses offset and size of a layer's bytes, up to the closing bracket.
func (p *parser) bytes(l layer, depth int, needs *[]*node) (*value, error) {
	v := &value{op: l.op, n: l.at, size: 1}
	var err error
	if v.a, err = p.arithmetic(0, depth+1, needs); err != nil {
		return nil, err
	}
	if p.take(":") {
		switch size := p.peek(); {
		case p.take("1", "2", "4"):
			v.size = int(size[0] - '0')
		default:
			return nil, p.unexpected("1, 2 or 4")
		}
	}
	if !p.take("]") {
		return nil, p.unexpected(`"]"`)
	}
	if l.need != nil {
		*needs = append(*needs, l.need)
	}
	return v, nil
}

func number(n uint32) *value { return &value{op: constant, n: n} }

// named are numbers with names.
var named = map[string]uint32{
	"tcpflags": 13, "tcp-fin": 1, "tcp-syn": 2, "tcp-rst": 4, "tcp-push": 8, "tcp-ack": 16, "tcp-urg": 32, "tcp-ece": 64, "tcp-cwr": 128,
	"icmptype": 0, "icmpcode": 1, "icmp-echoreply": 0, "icmp-unreach": 3, "icmp-sourcequench": 4, "icmp-redirect": 5, "icmp-echo": 8,
	"icmp-routeradvert": 9, "icmp-routersolicit": 10, "icmp-timxceed": 11, "icmp-paramprob": 12,
	"icmp6type": 0, "icmp6code": 1, "icmp6-destinationunreach": 1, "icmp6-packettoobig": 2, "icmp6-timeexceeded": 3,
	"icmp6-parameterproblem": 4, "icmp6-echo": 128, "icmp6-echoreply": 129, "icmp6-routersolicit": 133, "icmp6-routeradvert": 134,
	"icmp6-neighborsolicit": 135, "icmp6-neighboradvert": 136, "icmp6-redirect": 137,
}

// layer returns the offset of a protocol's bytes, and the condition for a frame to have it.
type layer struct {
	op   kind
	at   uint32
	need *node
}

var layers = map[string]layer{
	"ether": {fixed, 0, nil},
	"ip":    {fixed, 14, isIPv4},
	"ip6":   {fixed, 14, isIPv6},
	"arp":   {fixed, 14, etherType(0x0806)},
	"tcp":   {behind, 0, all(isIPv4, ipv4Protocol(6), notLaterFragment)},
	"udp":   {behind, 0, all(isIPv4, ipv4Protocol(17), notLaterFragment)},
	"icmp":  {behind, 0, all(isIPv4, ipv4Protocol(1), notLaterFragment)},
	"sctp":  {behind, 0, all(isIPv4, ipv4Protocol(132), notLaterFragment)},
	"icmp6": {fixed, 14 + 40, all(isIPv6, compare(20, 1, 58))},
}

// unescape removes the backslash from a name that is also a keyword.
func unescape(s string) string { return strings.TrimPrefix(s, `\`) }
