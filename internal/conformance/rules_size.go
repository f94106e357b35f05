package conformance

import (
	"bytes"
	"encoding/binary"

	"github.com/warproute/warproute/batch"
)

// The MTUs of ports 4 and 2, and of a route by port 1, which has 1500.
const narrow, narrower, ofRoute = 1400, 100, 1300

func sizeRules() []Rule {
	frag := func(f []byte, flagsAndOffset uint16) []byte {
		return edit(f, 6, byte(flagsAndOffset>>8), byte(flagsAndOffset))
	}
	mf, dfFlag := uint16(0x2000), uint16(0x4000)
	cut := func(name string, f []byte, mtu int, by uint16) Case {
		return Case{Name: name, Frame: f, Verdict: drop(batch.MTUExceeded), Sent: fragments(f, mtu, by), By: by}
	}
	return []Rule{
		{
			Key: "size/fits", Source: "RFC 1812 4.2.2.7, RFC 8200 5", Status: Kept,
			Says: "A packet as large as the MTU of the next link is forwarded unfragmented",
			Does: "Forwarded.",
			Cases: []Case{
				{Name: "IPv4", Frame: sized4("10.11.0.1", narrow), Verdict: forward(4)},
				{Name: "IPv6", Frame: sized6("fd0b::1", narrow), Verdict: forward(4)},
				{Name: "IPv4 with DF", Frame: df(sized4("10.11.0.1", narrow)), Verdict: forward(4)},
				{Name: "padding is no size", Frame: padded(sized4("10.2.0.9", narrower), 20), Verdict: forward(2)},
			},
		},
		{
			Key: "size/fragmentation", Source: "RFC 1812 4.2.2.7, RFC 791 2.3", Status: Kept,
			Says: "An IPv4 packet that exceeds the MTU is fragmented if it may be, with correct headers",
			Does: "Split into the fewest fragments, each but the last as large as possible, with the packet's identification and decremented TTL. Counted as forwarded.",
			Cases: []Case{
				cut("in two", sized4("10.11.0.1", 1500), narrow, 4),
				cut("one byte too large", sized4("10.11.0.1", narrow+1), narrow, 4),
				cut("in many", sized4("10.2.0.9", 1000), narrower, 2),
				cut("a first fragment", frag(sized4("10.2.0.9", 28+232), mf), narrower, 2),
				cut("a middle fragment", frag(sized4("10.2.0.9", 28+232), mf|100), narrower, 2),
				cut("a last fragment", frag(sized4("10.2.0.9", 28+231), 100), narrower, 2),
			},
			Tests: []string{"packet/fragment.TestIPv4FragmentsFollowRFC791", "packet/fragment.TestFragmentsOfFragmentsReassemble", "packet/fragment.TestLinuxReassemblesOurFragments", "dataplane.TestOversizedPacketsAreFragmented", "dataplane.TestFittingPacketsAreNotFragmented", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestFragmentedPacketsArriveWhole"},
		},
		{
			Key: "size/fragmentation-room", Source: "peers", Status: Departs,
			Says:  "Every packet that must be fragmented is",
			Does:  "Limited by a queue of 256 router-made packets per worker. Packets beyond it are dropped as `mtu_exceeded`.",
			Tests: []string{"dataplane.TestFragmentationIsAllOrNothing"},
		},
		{
			Key: "size/beyond-longest", Source: "RFC 791 3.1", Status: Kept,
			Says: "No fragment ends beyond the longest packet, 65535 bytes",
			Does: "Forwarded for its receiver to refuse; if it would have to be fragmented, dropped silently. (Linux fragments it with wrapped offsets.)",
			Cases: []Case{
				{Name: "that fits", Frame: frag(to4("10.1.0.9"), 0x1fff), Verdict: forward(1)},
				{Name: "that must be cut", Frame: frag(sized4("10.2.0.9", 1000), 0x1fff), Verdict: drop(batch.MTUExceeded)},
			},
			Tests: []string{"internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "size/fragments-pass", Source: "RFC 1812 4.2.2.8, RFC 8200 4.5, RFC 6864 4", Status: Kept,
			Says: "A router does not reassemble packets for others, and does not change identifications",
			Does: "Forwarded unchanged.",
			Cases: []Case{
				{Name: "IPv4, first", Frame: frag(to4("10.1.0.9"), mf), Verdict: forward(1)},
				{Name: "IPv4, middle", Frame: frag(to4("10.1.0.9"), mf|7), Verdict: forward(1)},
				{Name: "IPv4, last", Frame: frag(to4("10.1.0.9"), 7), Verdict: forward(1)},
				{Name: "IPv6, first", Frame: fragment6(0, 1), Verdict: forward(1)},
				{Name: "IPv6, middle", Frame: fragment6(8, 1), Verdict: forward(1)},
				{Name: "IPv6, last", Frame: fragment6(8, 0), Verdict: forward(1)},
				{Name: "IPv6, atomic (RFC 6946)", Frame: fragment6(0, 0), Verdict: forward(1)},
			},
		},
		{
			Key: "size/df", Source: "RFC 1191 4, RFC 1812 5.2.7.1", Status: Kept,
			Says: "A packet that exceeds the MTU and must not be fragmented causes an error with the next link's MTU",
			Does: "Dropped, with an error.",
			Cases: append(all(drop(batch.MTUExceeded), &Error{3, 4, narrow},
				Case{Name: "one byte too large", Frame: df(sized4("10.11.0.1", narrow+1))},
				Case{Name: "much too large", Frame: df(sized4("10.11.0.1", 1500))},
				Case{Name: "a first fragment", Frame: frag(sized4("10.11.0.1", 1500), mf|dfFlag)},
			), Case{Name: "a narrow link", Frame: df(sized4("10.2.0.9", 101)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, narrower}}),
			Tests: []string{"packet/icmp.TestErrorsEqualLinux/IPv4, fragmentation needed"},
		},
		{
			Key: "size/packet-too-big", Source: "RFC 4443 3.2, RFC 8201 3, RFC 8200 5", Status: Kept,
			Says: "An IPv6 packet that exceeds the MTU causes an error with the next link's MTU; routers do not fragment",
			Does: "Dropped, with an error.",
			Cases: all(drop(batch.MTUExceeded), &Error{2, 0, narrow},
				Case{Name: "one byte too large", Frame: sized6("fd0b::1", narrow+1)},
				Case{Name: "much too large", Frame: sized6("fd0b::1", 1500)},
				Case{Name: "a fragment", Frame: large(fragment6(8, 1), 1500, "fd0b::1")},
			),
			Tests: []string{"packet/icmp.TestErrorsEqualLinux/IPv6, too big"},
		},
		{
			Key: "size/minimum6", Source: "RFC 8200 5, RFC 8201 4", Status: Kept,
			Says:  "No reported MTU is below 1280",
			Does:  "A link with a smaller MTU is reported as 1280.",
			Cases: all(drop(batch.MTUExceeded), &Error{2, 0, 1280}, Case{Name: "a link of 100", Frame: sized6("fd02::9", 101)}),
		},
		{
			Key: "size/discovery", Source: "RFC 1191, RFC 8201", Status: Kept,
			Says:  "Path MTU discovery works through the router: hosts accept its errors",
			Does:  "The same bytes as Linux's own errors.",
			Tests: []string{"packet/icmp.TestErrorsEqualLinux", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestPathMTU", "internal/e2e.TestTCPSurvivesAShrinkingPathMTU"},
		},
		{
			Key: "size/route-mtu", Source: "ip-route(8)", Status: Kept,
			Says: "The MTU of a route (`mtu` of `ip route`) limits its packets",
			Does: "The smaller of the MTUs of the route and the port applies. `lock` has no effect, and the minimum is 68 bytes, 1280 in IPv6. (For IPv4, Linux uses the route's MTU even if it is larger, and its link drops the packet; for IPv6, it applies one without `lock` last, and quotes the packet with a decremented hop limit. It has an MTU per path of an IPv6 route, and reports the first path's.)",
			Cases: []Case{
				{Name: "IPv4 that fits", Frame: df(sized4("10.14.0.1", ofRoute)), Verdict: forward(1)},
				{Name: "IPv6 that fits", Frame: sized6("fd0e::1", ofRoute), Verdict: forward(1)},
				{Name: "IPv4, one byte too large", Frame: df(sized4("10.14.0.1", ofRoute+1)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, ofRoute}},
				{Name: "IPv6, one byte too large", Frame: sized6("fd0e::1", ofRoute+1), Verdict: drop(batch.MTUExceeded), Error: &Error{2, 0, ofRoute}},
				cut("that may be cut", sized4("10.14.0.1", 1500), ofRoute, 1),
				{Name: "IPv4, by a port of less", Frame: df(sized4("10.15.0.1", narrow+1)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, narrow}},
				{Name: "IPv6, by a port of less", Frame: sized6("fd0f::1", narrow+1), Verdict: drop(batch.MTUExceeded), Error: &Error{2, 0, narrow}},
			},
			Tests: []string{"control/mirror.TestRoutes/an MTU of the route", "control/mirror.TestMTUsOfRoutesFollowTheirLink", "control/mirror.TestVerifyFindsDifferences/a route without its MTU",
				"dataplane/esp.TestTunnelHasTheMTUOfItsRoute", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "size/mtu-change", Source: "peers", Status: Kept,
			Says:  "The MTU of a link may change under traffic",
			Does:  "Mirrored from Linux, in the same word as the port's address.",
			Tests: []string{"control/mirror.TestPortChanges"},
		},
	}
}

// fragments fragments a frame as RFC 791 3.2 describes, for a port.
func fragments(f []byte, mtu int, by uint16) (all [][]byte) {
	p := f[ethernetLen:]
	payload := p[20:binary.BigEndian.Uint16(p[2:])]
	word := binary.BigEndian.Uint16(p[6:])
	room := (mtu - 20) / 8 * 8
	for at := 0; at < len(payload); at += room {
		end, more := at+room, uint16(0x2000)
		if end >= len(payload) {
			end, more = len(payload), word&0x2000
		}
		piece := append(bytes.Clone(f[:ethernetLen+20]), payload[at:end]...)
		place := word&0x1fff + uint16(at/8) | more
		piece = edit(piece, 2, byte((20+end-at)>>8), byte(20+end-at))
		piece = edit(piece, 6, byte(place>>8), byte(place))
		all = append(all, onLink(edit(piece, 8, p[8]-1), by))
	}
	return all
}

// fragment6 returns a fragment of an IPv6 packet at an offset in bytes.
func fragment6(offset, more byte) []byte {
	return proto6("fd01::9", fragmentHeader, append([]byte{17, 0, 0, offset | more, 0, 0, 0, 7}, pattern(64)...)...)
}

// large extends a packet and changes its destination.
func large(f []byte, size int, dst string) []byte {
	rest := append(bytes.Clone(f[ethernetLen+40:]), pattern(size-len(f)+ethernetLen)...)
	return proto6(dst, f[ethernetLen+6], rest...)
}
