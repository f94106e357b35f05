package icmp_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/icmp"
)

// A router reports to the source that a packet exceeds the MTU of the next link.
func Example() {
	offending := testutil.UDP6("2001:db8::1", "2001:db8:1::7", 12345, 53, make([]byte, 1400)...)[packet.EthernetLen:]
	limiter := icmp.NewLimiter(icmp.DefaultLimits)

	const now = time.Second // since the start of the router
	if icmp.Suppressed(offending, icmp.TooBig, false) || !limiter.Allow(now, 0, offending, icmp.TooBig) {
		return
	}
	buf := make([]byte, icmp.MaxIPv6)
	n := icmp.Build(buf, offending, icmp.Error{Cause: icmp.TooBig, Info: 1400}, netip.MustParseAddr("2001:db8::ff"), 0)

	header := (*packet.IPv6)(buf)
	fmt.Println(n, "bytes to", netip.AddrFrom16(header.Dst()), "type", buf[packet.IPv6Len])
	// Output: 1280 bytes to 2001:db8::1 type 2
}
