package conformance

import "github.com/warproute/warproute/batch"

func ipv6Rules() []Rule {
	v6 := to6("fd01::9")
	many := func(n int) (kinds []byte) {
		for range n {
			kinds = append(kinds, destination)
		}
		return kinds
	}
	routing := func(kind, left byte) []byte {
		f := chain("fd01::9", routingHeader)
		return edit(f, 42, kind, left)
	}
	return []Rule{
		{
			Key: "ipv6/version", Source: "RFC 8200 3", Status: Kept,
			Says: "The version is 6",
			Does: "Dropped silently.",
			Cases: all(drop(batch.IPVersion), nil,
				Case{Name: "IPv4 under IPv6's type", Frame: etherType(to4("10.1.0.9"), 0x86dd)},
				Case{Name: "version 7", Frame: edit(v6, 0, 0x70)},
			),
		},
		{
			Key: "ipv6/payload-length", Source: "RFC 8200 3", Status: Kept,
			Says: "The payload does not exceed the frame",
			Does: "Dropped silently.",
			Cases: append(all(drop(batch.BadLength), nil,
				Case{Name: "one byte beyond", Frame: edit(v6, 4, 0, 49)},
				Case{Name: "of 65535", Frame: edit(v6, 4, 0xff, 0xff)},
			), Case{Name: "none", Frame: edit(v6, 4, 0, 0, 59), Verdict: forward(1)}),
		},
		{
			Key: "ipv6/jumbogram", Source: "RFC 2675", Status: Kept,
			Says:  "A jumbogram exceeds every supported link MTU",
			Does:  "Dropped silently, by its payload length of 0 before a hop-by-hop header.",
			Cases: all(drop(batch.BadLength), nil, Case{Name: "jumbogram", Frame: edit(chain("fd01::9", hopByHop), 4, 0, 0)}),
		},
		{
			Key: "ipv6/hop-limit", Source: "RFC 8200 3, RFC 4443 3.3", Status: Kept,
			Says: "The hop limit is decremented; a packet whose hop limit is or becomes 0 is discarded with an ICMP error",
			Does: "Dropped, with an error from the ingress port, before the route lookup as in IPv4.",
			Cases: append(all(drop(batch.TTLExpired), &Error{3, 0, 0},
				Case{Name: "hop limit 1", Frame: hops(v6, 1)},
				Case{Name: "hop limit 0", Frame: hops(v6, 0)},
				Case{Name: "no route", Frame: hops(to6("2001:db8:ffff::1"), 1)},
			),
				Case{Name: "hop limit 2", Frame: hops(v6, 2), Verdict: forward(1)},
				Case{Name: "hop limit 255", Frame: hops(v6, 255), Verdict: forward(1)},
			),
		},
		{
			Key: "ipv6/traffic-class", Source: "RFC 8200 7, RFC 3168 5", Status: Kept,
			Says: "The traffic class is forwarded unchanged",
			Does: "Unchanged.",
			Cases: all(forward(1), nil,
				Case{Name: "expedited forwarding", Frame: edit(v6, 0, 0x6b, 0x80)},
				Case{Name: "all bits", Frame: edit(v6, 0, 0x6f, 0xf0)},
			),
		},
		{
			Key: "ipv6/flow-label", Source: "RFC 8200 6, RFC 6437 2", Status: Kept,
			Says:  "The flow label is forwarded unchanged",
			Does:  "Unchanged.",
			Cases: all(forward(1), nil, Case{Name: "flow label", Frame: edit(v6, 0, 0x60, 0x0a, 0xbc, 0xde)}),
		},
		{
			Key: "ipv6/extension-headers", Source: "RFC 8200 4, RFC 7045 2.1", Status: Kept,
			Says: "Routers neither process, change, add nor remove extension headers, and drop no packet because of them",
			Does: "Unchanged; the chain is followed only to find fragments and ports.",
			Cases: all(forward(1), nil,
				Case{Name: "hop-by-hop", Frame: chain("fd01::9", hopByHop)},
				Case{Name: "destination options", Frame: chain("fd01::9", destination)},
				Case{Name: "authentication", Frame: chain("fd01::9", ahHeader)},
				Case{Name: "mobility, which is not followed", Frame: chain("fd01::9", mobility)},
				Case{Name: "all that are known", Frame: chain("fd01::9", hopByHop, destination, routingHeader, fragmentHeader, ahHeader, destination)},
				Case{Name: "the same twice", Frame: chain("fd01::9", destination, destination)},
				Case{Name: "eight", Frame: chain("fd01::9", many(8)...)},
				Case{Name: "hop-by-hop not first", Frame: chain("fd01::9", destination, hopByHop)},
			),
			Tests: []string{"packet.TestFindL4"},
		},
		{
			Key: "ipv6/unknown-headers", Source: "RFC 7045 2.1, RFC 8200 4.7", Status: Kept,
			Says: "Packets with an unknown next header, or none, are forwarded",
			Does: "Unchanged.",
			Cases: all(forward(1), nil,
				Case{Name: "an experimental one", Frame: proto6("fd01::9", 253, pattern(40)...)},
				Case{Name: "no next header", Frame: proto6("fd01::9", 59, pattern(40)...)},
				Case{Name: "ESP", Frame: proto6("fd01::9", 50, pattern(40)...)},
			),
		},
		{
			Key: "ipv6/chain-length", Source: "RFC 8200 4.1, RFC 8504 5.3, peers", Status: Departs,
			Says:  "A chain of extension headers may be long, and a router need not follow it",
			Does:  "More than eight headers are dropped silently: no host sends them, and an ICMP error or a flow behind them cannot be recognized. (Linux forwards the packet.)",
			Cases: all(drop(batch.ExtensionHeaders), nil, Case{Name: "nine", Frame: chain("fd01::9", many(9)...)}),
		},
		{
			Key: "ipv6/chain-broken", Source: "RFC 7112 5", Status: Kept,
			Says: "A packet or first fragment without its complete header chain may be discarded",
			Does: "Dropped silently.",
			Cases: all(drop(batch.ExtensionHeaders), nil,
				Case{Name: "header beyond the end", Frame: edit(edit(v6, 6, destination), 40, 17, 200)},
				Case{Name: "header cut", Frame: proto6("fd01::9", destination, 17, 0, 0)},
				Case{Name: "first fragment without the rest", Frame: proto6("fd01::9", fragmentHeader, destination, 0, 0, 1, 0, 0, 0, 1)},
			),
		},
		{
			Key: "ipv6/hop-by-hop", Source: "RFC 8200 4.3, RFC 9673 5, RFC 6398 5, RFC 7045 2.2", Status: Kept,
			Says: "A router processes hop-by-hop options only if configured to; otherwise it forwards the packet like others",
			Does: "Ignored and forwarded, including router alerts and unknown options that request an error. (Linux processes them.)",
			Cases: all(forward(1), nil,
				Case{Name: "router alert", Frame: edit(chain("fd01::9", hopByHop), 42, 5, 2, 0, 0, 1, 0)},
				Case{Name: "an unknown option that may be skipped", Frame: edit(chain("fd01::9", hopByHop), 42, 0x1e, 4)},
				Case{Name: "an unknown option that asks for an error", Frame: edit(chain("fd01::9", hopByHop), 42, 0x9e, 4)},
			),
		},
		{
			Key: "ipv6/routing-header-0", Source: "RFC 5095 3", Status: Kept,
			Says: "Type 0 routing headers are not processed; they may be filtered",
			Does: "Dropped silently while segments are left, anywhere in the chain: no host may follow it. (Linux forwards it.)",
			Cases: append(all(drop(batch.RoutingHeader), nil,
				Case{Name: "first", Frame: routing(0, 1)},
				Case{Name: "behind another", Frame: edit(chain("fd01::9", destination, routingHeader), 50, 0, 1)},
			), Case{Name: "no segments left", Frame: routing(0, 0), Verdict: forward(1)}),
		},
		{
			Key: "ipv6/routing-headers", Source: "RFC 5095 4.2, RFC 7045 2.1", Status: Kept,
			Says: "Other types of routing headers are not filtered with type 0",
			Does: "Unchanged.",
			Cases: all(forward(1), nil,
				Case{Name: "type 2, mobile IPv6", Frame: routing(2, 1)},
				Case{Name: "type 4, segment routing", Frame: routing(4, 1)},
				Case{Name: "type 253, experimental", Frame: routing(253, 1)},
			),
		},
	}
}
