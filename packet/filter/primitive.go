package filter

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// qualifiers precede a value: "tcp src port".
type qualifiers struct {
	proto string // "", ether, ip, ip6, arp, rarp, tcp, udp, sctp
	dir   string // "", src, dst, and
	kind  string // host, net, port, portrange, proto
}

var directions = map[string]bool{"src": true, "dst": true}
var kinds = map[string]bool{"host": true, "net": true, "port": true, "portrange": true, "proto": true}

// plain are the protocols that can stand alone.
var plain = map[string]*node{
	"ip": isIPv4, "ip6": isIPv6, "arp": etherType(0x0806), "rarp": etherType(0x8035),
	"tcp": protocol(6), "udp": protocol(17), "sctp": protocol(132), "esp": protocol(50), "ah": protocol(51), "pim": protocol(103),
	"icmp": all(isIPv4, ipv4Protocol(1)), "igmp": all(isIPv4, ipv4Protocol(2)), "icmp6": ipv6Protocol(58),
}

// numbers are the protocol numbers by name.
var numbers = map[string]uint32{"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "esp": 50, "ah": 51, "icmp6": 58, "pim": 103, "sctp": 132}

// qualifying are the protocols that can qualify a value.
var qualifying = map[string]bool{"ether": true, "ip": true, "ip6": true, "arp": true, "rarp": true, "tcp": true, "udp": true, "sctp": true}

// primitive parses qualifiers and their value, or a word without a value.
func (p *parser) primitive(behind bool) (*node, error) {
	start := p.at
	word := p.peek()
	switch word {
	case "less", "greater":
		p.at++
		n, err := strconv.ParseUint(p.peek(), 0, 32)
		if err != nil {
			return nil, p.unexpected("a length")
		}
		p.at++
		p.last = nil
		op := map[string]string{"less": "<=", "greater": ">="}[word]
		return &node{op: op, l: &value{op: length}, r: number(uint32(n))}, nil
	case "broadcast", "multicast":
		p.at++
		p.last = nil
		return group("ether", word), nil
	}
	q, some := p.qualifiers()
	if !some {
		if behind && p.last != nil && word != "" {
			return p.values(*p.last, 0)
		}
		return nil, p.unexpected("a protocol, src, dst, host, net, port or another primitive")
	}
	next := p.peek()
	if q.kind == "" && q.dir == "" {
		if next == "broadcast" || next == "multicast" {
			if n := group(q.proto, next); n != nil {
				p.at++
				p.last = nil
				return n, nil
			}
		}
		if n := plain[q.proto]; n != nil {
			p.last = nil
			return n, nil
		}
	}
	if n := plain[word]; n != nil && !qualifying[word] { // icmp, esp: qualify nothing
		p.at = start + 1
		p.last = nil
		return n, nil
	}
	if q.kind == "" {
		q.kind = "host"
	}
	p.last = &q
	return p.values(q, 0)
}

// qualifiers parses qualifiers. It is not ok if there are none.
func (p *parser) qualifiers() (q qualifiers, some bool) {
	start := p.at
	if w := p.peek(); qualifying[w] || plain[w] != nil {
		q.proto = w
		p.at++
	}
	if w := p.peek(); directions[w] {
		q.dir = w
		p.at++
		// "src or dst", "src and dst": only if both are there.
		if p.at+1 < len(p.tokens) && directions[p.tokens[p.at+1].text] && p.tokens[p.at+1].text != w {
			switch p.peek() {
			case "or", "||":
				q.dir = ""
				p.at += 2
			case "and", "&&":
				q.dir = "and"
				p.at += 2
			}
		}
	}
	if w := p.peek(); kinds[w] {
		q.kind = w
		p.at++
	}
	return q, p.at > start
}

// values parses a value, or several in parentheses.
func (p *parser) values(q qualifiers, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	if p.take("not", "!") {
		n, err := p.values(q, depth+1)
		return negate(n), err
	}
	if !p.take("(") {
		return p.value(q)
	}
	n, err := p.values(q, depth+1)
	for err == nil && !p.take(")") {
		op := ""
		switch {
		case p.take("and", "&&"):
			op = "and"
		case p.take("or", "||"):
			op = "or"
		default:
			return nil, p.unexpected(`and, or, or ")"`)
		}
		var b *node
		if b, err = p.values(q, depth+1); err == nil {
			n = &node{op: op, a: n, b: b}
		}
	}
	return n, err
}

// value parses one value.
func (p *parser) value(q qualifiers) (*node, error) {
	if p.at == len(p.tokens) || operator(p.peek()) == p.peek() {
		return nil, p.unexpected("a value of " + q.kind)
	}
	t := p.tokens[p.at]
	p.at++
	n, err := p.meaning(q, t.text)
	if err != nil {
		return nil, fmt.Errorf("column %d: %w", t.at+1, err)
	}
	return n, nil
}

func (p *parser) meaning(q qualifiers, text string) (*node, error) {
	switch q.kind {
	case "host", "net":
		return p.address(q, text)
	case "proto":
		return protoValue(q, text)
	}
	return portValue(q, text)
}

// address matches a host or a network.
func (p *parser) address(q qualifiers, text string) (*node, error) {
	if q.proto == "ether" {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 || q.kind != "host" {
			return nil, fmt.Errorf("%q is not a MAC address such as 02:00:00:00:00:01", text)
		}
		at := func(offset uint32) *node {
			return all(compare(offset+2, 4, binary.BigEndian.Uint32(mac[2:])), compare(offset, 2, uint32(binary.BigEndian.Uint16(mac))))
		}
		return directed(q.dir, at(6), at(0)), nil
	}
	prefix, err := p.prefix(q, text)
	if err != nil {
		return nil, err
	}
	addr := prefix.Addr()
	if addr.Is6() {
		if q.proto != "" && q.proto != "ip6" {
			return nil, fmt.Errorf("address %v does not match %q", addr, q.proto)
		}
		return all(isIPv6, directed(q.dir, inPrefix(22, prefix), inPrefix(38, prefix))), nil
	}
	ip := all(isIPv4, directed(q.dir, inPrefix(26, prefix), inPrefix(30, prefix)))
	arp := func(kind uint32) *node {
		return all(etherType(kind), directed(q.dir, inPrefix(28, prefix), inPrefix(38, prefix)))
	}
	switch q.proto {
	case "ip":
		return ip, nil
	case "arp":
		return arp(0x0806), nil
	case "rarp":
		return arp(0x8035), nil
	case "":
		return either(ip, arp(0x0806), arp(0x8035)), nil
	}
	return nil, fmt.Errorf("address %v does not match %q", addr, q.proto)
}

// prefix parses an address, with a length or, for "net", a mask or omitted parts.
func (p *parser) prefix(q qualifiers, text string) (netip.Prefix, error) {
	wrong := fmt.Errorf("%q is not an address such as 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32 (names are not looked up)", text)
	if strings.Contains(text, "/") {
		whole := text
		if a, bits, _ := strings.Cut(text, "/"); q.kind == "net" && strings.Count(a, ".") < 3 && !strings.Contains(a, ":") {
			whole = a + strings.Repeat(".0", 3-strings.Count(a, ".")) + "/" + bits
		}
		prefix, err := netip.ParsePrefix(whole)
		if err != nil {
			return prefix, wrong
		}
		return prefix, maskedRight(prefix)
	}
	if q.kind == "net" && strings.Count(text, ".") < 3 && !strings.Contains(text, ":") { // net 10, net 192.168
		parts := strings.Count(text, ".") + 1
		addr, err := netip.ParseAddr(text + strings.Repeat(".0", 4-parts))
		if err != nil {
			return netip.Prefix{}, wrong
		}
		return netip.PrefixFrom(addr, parts*8), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return netip.Prefix{}, wrong
	}
	bits := addr.BitLen()
	if q.kind == "net" && p.take("mask") {
		mask, err := netip.ParseAddr(p.peek())
		if err != nil || !mask.Is4() || !addr.Is4() {
			return netip.Prefix{}, p.unexpected("an IPv4 mask")
		}
		p.at++
		b := mask.As4()
		ones, size := net.IPMask(b[:]).Size()
		if size == 0 {
			return netip.Prefix{}, fmt.Errorf("mask %v has holes", mask)
		}
		prefix := netip.PrefixFrom(addr, ones)
		return prefix, maskedRight(prefix)
	}
	return netip.PrefixFrom(addr, bits), nil
}

func maskedRight(p netip.Prefix) error {
	if p != p.Masked() {
		return fmt.Errorf("%v has bits beyond its length; use %v", p, p.Masked())
	}
	return nil
}

// protoValue matches a protocol by number or name.
func protoValue(q qualifiers, text string) (*node, error) {
	if q.dir != "" {
		return nil, fmt.Errorf("a protocol has no direction")
	}
	name := unescape(text)
	n, known := numbers[name]
	if q.proto == "ether" {
		n, known = map[string]uint32{"ip": 0x0800, "ip6": 0x86dd, "arp": 0x0806, "rarp": 0x8035}[name], false
		known = n != 0
	}
	if !known {
		v, err := strconv.ParseUint(text, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a known protocol; use its number", text)
		}
		n = uint32(v)
	}
	switch q.proto {
	case "ether":
		if n <= 1500 {
			return nil, fmt.Errorf("%d is not an EtherType", n)
		}
		return etherType(n), nil
	case "ip":
		return all(isIPv4, ipv4Protocol(n)), nil
	case "ip6":
		return ipv6Protocol(n), nil
	case "":
		return protocol(n), nil
	}
	return nil, fmt.Errorf("%q carries no protocols", q.proto)
}

// portValue matches a port or a range of ports.
func portValue(q qualifiers, text string) (*node, error) {
	of := []uint32{6, 17, 132}
	switch q.proto {
	case "":
	case "tcp", "udp", "sctp":
		of = []uint32{numbers[q.proto]}
	default:
		return nil, fmt.Errorf("%q has no ports", q.proto)
	}
	from, to, named, err := ports(q, text)
	if err != nil {
		return nil, err
	}
	if len(named) == 1 { // a name that exists for one protocol only
		if q.proto == "" {
			of = named
		} else if of[0] != named[0] {
			return nil, fmt.Errorf("%q is not a port of %s; use its number", text, q.proto)
		}
	}
	if from > to {
		from, to = to, from
	}
	is := func(op kind, at uint32) *node {
		v := &value{op: op, n: at, size: 2}
		if from == to {
			return &node{op: "==", l: v, r: number(from)}
		}
		return all(&node{op: ">=", l: v, r: number(from)}, &node{op: "<=", l: v, r: number(to)})
	}
	var v4, v6 []*node
	for _, proto := range of {
		v4, v6 = append(v4, ipv4Protocol(proto)), append(v6, compare(20, 1, proto))
	}
	return either(
		all(isIPv6, either(v6...), directed(q.dir, is(fixed, 54), is(fixed, 56))),
		all(isIPv4, either(v4...), notLaterFragment, directed(q.dir, is(behind, 0), is(behind, 2))),
	), nil
}

// ports parses a port or a range, and returns the protocols of a named port.
func ports(q qualifiers, text string) (from, to uint32, named []uint32, err error) {
	a, b, two := strings.Cut(text, "-")
	if q.kind != "portrange" || !two {
		if n, err := strconv.ParseUint(text, 0, 16); err == nil { // a leading 0 means octal, as in libpcap
			return uint32(n), uint32(n), nil, nil
		}
		from, named, err = portNamed(text)
		return from, from, named, err
	}
	if from, err = portNumber(a); err == nil {
		to, err = portNumber(b)
	}
	return from, to, nil, err
}

// portNumber parses an end of a range.
func portNumber(text string) (uint32, error) {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return uint32(n), nil
	}
	n, _, err := portNamed(text)
	return n, err
}

// portNamed finds a port by its name, TCP's first, as in libpcap.
func portNamed(text string) (port uint32, of []uint32, err error) {
	for _, network := range []string{"tcp", "udp"} {
		if n, err := net.LookupPort(network, text); err == nil && text != "" && (of == nil || port == uint32(n)) {
			port, of = uint32(n), append(of, numbers[network])
		}
	}
	if of == nil || text[0] >= '0' && text[0] <= '9' {
		return 0, nil, fmt.Errorf("%q is not a known port", text)
	}
	return port, of, nil
}
