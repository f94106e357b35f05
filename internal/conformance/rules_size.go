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
			Says: "A packet as large as the next link's MTU is forwarded whole",
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
			Says: "An IPv4 packet that is too large and may be fragmented is, with every fragment's header right",
			Does: "Cut into the fewest fragments, the first ones as large as fits, each with the packet's identification and a TTL one less. Counted as forwarded.",
			Cases: []Case{
				cut("in two", sized4("10.11.0.1", 1500), narrow, 4),
				cut("one byte too large", sized4("10.11.0.1", narrow+1), narrow, 4),
				cut("in many", sized4("10.2.0.9", 1000), narrower, 2),
				cut("a first fragment", frag(sized4("10.2.0.9", 28+232), mf), narrower, 2),
				cut("a middle fragment", frag(sized4("10.2.0.9", 28+232), mf|100), narrower, 2),
				cut("a last fragment", frag(sized4("10.2.0.9", 28+231), 100), narrower, 2),
			},
			Tests: []string{"packet/fragment.TestIPv4FragmentsAreThoseOfRFC791", "packet/fragment.TestFragmentsOfFragmentsComeTogetherElsewhere", "packet/fragment.TestLinuxPutsOurFragmentsTogether", "dataplane.TestPacketsAreCut", "dataplane.TestPacketsThatFitAreNotCut", "internal/e2e.TestLinuxDoesTheSame", "internal/e2e.TestFragmentsArriveWhole"},
		},
		{
			Key: "size/fragmentation-room", Source: "peers", Status: Departs,
			Says:  "Every packet that must be fragmented is",
			Does:  "As far as there is room: a worker has a queue of 256 packets of its own making. What does not fit is dropped as `mtu_exceeded`, whole.",
			Tests: []string{"dataplane.TestPacketsWithoutRoomAreNotCut"},
		},
		{
			Key: "size/beyond-longest", Source: "RFC 791 3.1", Status: Kept,
			Says: "No fragment ends beyond the longest packet, 65535 bytes",
			Does: "One that does is forwarded as any other, for its receiver to refuse; where it would have to be cut, it is dropped silently. (Linux cuts it, and its offsets wrap.)",
			Cases: []Case{
				{Name: "that fits", Frame: frag(to4("10.1.0.9"), 0x1fff), Verdict: forward(1)},
				{Name: "that must be cut", Frame: frag(sized4("10.2.0.9", 1000), 0x1fff), Verdict: drop(batch.MTUExceeded)},
			},
			Tests: []string{"internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "size/fragments-pass", Source: "RFC 1812 4.2.2.8, RFC 8200 4.5, RFC 6864 4", Status: Kept,
			Says: "A router puts together no fragments that are for others, and changes no identification",
			Does: "Forwarded as they come.",
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
			Says: "The source of a packet that is too large and must not be fragmented is told, with the MTU of the next link",
			Does: "Dropped, with an error.",
			Cases: append(all(drop(batch.MTUExceeded), &Error{3, 4, narrow},
				Case{Name: "one byte too large", Frame: df(sized4("10.11.0.1", narrow+1))},
				Case{Name: "much too large", Frame: df(sized4("10.11.0.1", 1500))},
				Case{Name: "a first fragment", Frame: frag(sized4("10.11.0.1", 1500), mf|dfFlag)},
			), Case{Name: "a narrow link", Frame: df(sized4("10.2.0.9", 101)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, narrower}}),
			Tests: []string{"packet/icmp.TestErrorsAreLinuxs/IPv4, fragmentation needed"},
		},
		{
			Key: "size/packet-too-big", Source: "RFC 4443 3.2, RFC 8201 3, RFC 8200 5", Status: Kept,
			Says: "The source of an IPv6 packet that is too large is told, with the MTU of the next link; a router fragments none",
			Does: "Dropped, with an error.",
			Cases: all(drop(batch.MTUExceeded), &Error{2, 0, narrow},
				Case{Name: "one byte too large", Frame: sized6("fd0b::1", narrow+1)},
				Case{Name: "much too large", Frame: sized6("fd0b::1", 1500)},
				Case{Name: "a fragment", Frame: large(fragment6(8, 1), 1500, "fd0b::1")},
			),
			Tests: []string{"packet/icmp.TestErrorsAreLinuxs/IPv6, too big"},
		},
		{
			Key: "size/minimum6", Source: "RFC 8200 5, RFC 8201 4", Status: Kept,
			Says:  "No source is told of an MTU below 1280",
			Does:  "A link of less is told as 1280.",
			Cases: all(drop(batch.MTUExceeded), &Error{2, 0, 1280}, Case{Name: "a link of 100", Frame: sized6("fd02::9", 101)}),
		},
		{
			Key: "size/discovery", Source: "RFC 1191, RFC 8201", Status: Kept,
			Says:  "Path MTU discovery works through the router: its errors are those that Linux hosts heed",
			Does:  "The same bytes as Linux's own.",
			Tests: []string{"packet/icmp.TestErrorsAreLinuxs", "internal/e2e.TestLinuxDoesTheSame", "internal/e2e.TestPathMTU", "internal/e2e.TestTCPRecoversFromAnMTUThatShrinks"},
		},
		{
			Key: "size/route-mtu", Source: "ip-route(8)", Status: Kept,
			Says: "A route's own MTU (`mtu` of `ip route`) bounds what takes it",
			Does: "The smaller of it and the port's counts; `lock` makes no difference, and less than every way must carry (68 bytes, 1280 in IPv6) counts as that. " +
				"(In IPv4 Linux takes the route's where it is the larger one, too, and its link drops what does not fit; in IPv6 it looks at one without `lock` last, and quotes the packet with a hop less. " +
				"It knows an MTU for each path of an IPv6 route, and tells that of the first.)",
			Cases: []Case{
				{Name: "IPv4 that fits", Frame: df(sized4("10.14.0.1", ofRoute)), Verdict: forward(1)},
				{Name: "IPv6 that fits", Frame: sized6("fd0e::1", ofRoute), Verdict: forward(1)},
				{Name: "IPv4, one byte too large", Frame: df(sized4("10.14.0.1", ofRoute+1)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, ofRoute}},
				{Name: "IPv6, one byte too large", Frame: sized6("fd0e::1", ofRoute+1), Verdict: drop(batch.MTUExceeded), Error: &Error{2, 0, ofRoute}},
				cut("that may be cut", sized4("10.14.0.1", 1500), ofRoute, 1),
				{Name: "IPv4, by a port of less", Frame: df(sized4("10.15.0.1", narrow+1)), Verdict: drop(batch.MTUExceeded), Error: &Error{3, 4, narrow}},
				{Name: "IPv6, by a port of less", Frame: sized6("fd0f::1", narrow+1), Verdict: drop(batch.MTUExceeded), Error: &Error{2, 0, narrow}},
			},
			Tests: []string{"control/mirror.TestRoutes/an MTU of the route", "control/mirror.TestMTUsOfRoutesFollowTheirLink", "control/mirror.TestVerifyFindsWhatIsWrong/a route without its MTU",
				"dataplane/cpu.TestATunnelHasTheMTUOfItsRoute", "internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "size/mtu-change", Source: "peers", Status: Kept,
			Says:  "A link's MTU may change while packets are under way",
			Does:  "Mirrored from Linux, in the word that has the port's address.",
			Tests: []string{"control/mirror.TestPortChanges"},
		},
	}
}

// fragments cuts a frame as RFC 791 3.2 describes, and has the pieces leave by a port.
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

// fragment6 is a fragment of an IPv6 packet, at an offset in bytes.
func fragment6(offset, more byte) []byte {
	return proto6("fd01::9", fragmentHeader, append([]byte{17, 0, 0, offset | more, 0, 0, 0, 7}, pattern(64)...)...)
}

// large makes a packet longer, and changes its destination.
func large(f []byte, size int, dst string) []byte {
	rest := append(bytes.Clone(f[ethernetLen+40:]), pattern(size-len(f)+ethernetLen)...)
	return proto6(dst, f[ethernetLen+6], rest...)
}
