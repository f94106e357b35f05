package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// scalar returns the source text of a string or a number. It is not ok for other nodes.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// hexKey reads an inline key, which YAML can parse as a number. Its errors reveal no digits.
func hexKey(dst *Key) value {
	return func(r *reader, key string, n ast.Node) {
		const hint = "write it on one line, two hex digits per byte"
		s, ok := scalar(n)
		if !ok {
			r.fail(key, n, key+" must be hex digits", hint)
			return
		}
		k, err := parseKey([]byte(s))
		if err != nil {
			r.fail(key, n, fmt.Sprintf("%s: %v", key, err), hint)
			return
		}
		*dst = k
	}
}

// address reads an IP address.
func address(dst *netip.Addr) value {
	return func(r *reader, key string, n ast.Node) {
		const hint = "write one such as 192.0.2.1 or 2001:db8::1"
		s, ok := scalar(n)
		if !ok {
			r.wrongType(key, n, "an IP address", hint)
			return
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			r.fail(key, n, fmt.Sprintf("%s: %q is not an IP address", key, s), hint)
			return
		}
		*dst = a
	}
}

// prefix reads an IP prefix.
func prefix(dst *netip.Prefix) value {
	return func(r *reader, key string, n ast.Node) {
		hint := "write one such as 10.7.0.0/16 or 2001:db8::/32; any is 0.0.0.0/0 or ::/0"
		s, ok := scalar(n)
		if !ok {
			r.wrongType(key, n, "an IP prefix", hint)
			return
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
				hint = fmt.Sprintf("did you mean %v/%d?", a, a.BitLen())
			}
			r.fail(key, n, fmt.Sprintf("%s: %q is not an IP prefix", key, s), hint)
			return
		}
		*dst = p
	}
}

// protocols lists the IP protocols that have names in policies.
var protocols = []struct {
	name   string
	number uint8
	ports  bool // or type and code in place of ports, as in Linux
}{
	{"any", 0, false},
	{"icmp", protoICMP, true},
	{"tcp", 6, true},
	{"udp", 17, true},
	{"dccp", 33, true},
	{"gre", 47, false},
	{"esp", 50, false},
	{"ah", 51, false},
	{"icmpv6", protoICMPv6, true},
	{"ospf", 89, false},
	{"sctp", 132, true},
	{"mobility", 135, true},
	{"udplite", 136, true},
}

const (
	protoICMP   = 1
	protoICMPv6 = 58
)

// protocol reads an IP protocol, by name or number.
func protocol(dst *uint8) value {
	var names []string
	for _, p := range protocols {
		names = append(names, p.name)
	}
	return func(r *reader, key string, n ast.Node) {
		hint := "write a number from 1 to 255, " + alternatives(names)
		s, ok := scalar(n)
		if !ok {
			r.wrongType(key, n, "an IP protocol", hint)
			return
		}
		number, err := strconv.ParseUint(s, 10, 8)
		i := slices.Index(names, s)
		switch {
		case i >= 0:
			*dst = protocols[i].number
		case err == nil && number > 0:
			*dst = uint8(number)
		default:
			r.fail(key, n, fmt.Sprintf("%s: unknown protocol %q", key, s), hint)
		}
	}
}

// ports reads a port or a range of ports.
func ports(dst *PortRange) value {
	return func(r *reader, key string, n ast.Node) {
		const hint = `write one such as 80, a range such as 1000-2000, or any`
		s, ok := scalar(n)
		if !ok {
			r.wrongType(key, n, "a port or a range of ports", hint)
			return
		}
		if s == "any" {
			*dst = AnyPort
			return
		}
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		to, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
		switch {
		case err1 != nil || err2 != nil:
			r.fail(key, n, fmt.Sprintf("%s: %q is neither a port nor a range of ports", key, s), hint)
		case from > to:
			r.fail(key, n, fmt.Sprintf("%s: %s ends before it begins", key, s), fmt.Sprintf("did you mean %d-%d?", to, from))
		default:
			*dst = PortRange{uint16(from), uint16(to)}
		}
	}
}
