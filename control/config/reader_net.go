package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// hexKey reads an inline key, which YAML can parse as a number. Its errors reveal no digits.
func hexKey(dst *Key) value {
	const hint = "write it on one line, two hex digits per byte"
	read := scalar(dst, "", hint, func(s string) (Key, string, string) {
		k, err := parseKey([]byte(s))
		if err != nil {
			return k, err.Error(), ""
		}
		return k, "", ""
	})
	return func(r *reader, key string, n ast.Node) {
		if _, ok := scalarText(n); !ok {
			r.fail(key, n, key+" must be hex digits", hint) // wrongType would show the value
			return
		}
		read(r, key, n)
	}
}

// address reads an IP address.
func address(dst *netip.Addr) value {
	return scalar(dst, "an IP address", "write one such as 192.0.2.1 or 2001:db8::1", func(s string) (netip.Addr, string, string) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return a, fmt.Sprintf("%q is not an IP address", s), ""
		}
		return a, "", ""
	})
}

// prefix reads an IP prefix.
func prefix(dst *netip.Prefix) value {
	return scalar(dst, "an IP prefix", "write one such as 10.7.0.0/16 or 2001:db8::/32; any is 0.0.0.0/0 or ::/0", func(s string) (netip.Prefix, string, string) {
		p, err := netip.ParsePrefix(s)
		if err == nil {
			return p, "", ""
		}
		hint := ""
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			hint = fmt.Sprintf("did you mean %v/%d?", a, a.BitLen())
		}
		return p, fmt.Sprintf("%q is not an IP prefix", s), hint
	})
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
	{"vrrp", 112, false},
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
	return scalar(dst, "an IP protocol", "write a number from 1 to 255, "+alternatives(names), func(s string) (uint8, string, string) {
		if i := slices.Index(names, s); i >= 0 {
			return protocols[i].number, "", ""
		}
		number, err := strconv.ParseUint(s, 10, 8)
		if err != nil || number == 0 {
			return 0, fmt.Sprintf("unknown protocol %q", s), ""
		}
		return uint8(number), "", ""
	})
}

// ports reads a port or a range of ports.
func ports(dst *PortRange) value {
	return scalar(dst, "a port or a range of ports", `write one such as 80, a range such as 1000-2000, or any`, func(s string) (PortRange, string, string) {
		if s == "any" {
			return AnyPort, "", ""
		}
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		to, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
		switch {
		case err1 != nil || err2 != nil:
			return PortRange{}, fmt.Sprintf("%q is neither a port nor a range of ports", s), ""
		case from > to:
			return PortRange{}, s + " ends before it begins", fmt.Sprintf("did you mean %d-%d?", to, from)
		}
		return PortRange{uint16(from), uint16(to)}, "", ""
	})
}
