package lookup_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
)

// Tables of both families map addresses to the same next hops.
func Example() {
	const gateway lookup.NextHopID = 1
	v4, v6 := ipv4.New(), ipv6.New()
	if err := v4.Insert(netip.MustParsePrefix("198.51.100.0/24"), gateway); err != nil {
		panic(err)
	}
	if err := v6.Insert(netip.MustParsePrefix("2001:db8:1::/48"), gateway); err != nil {
		panic(err)
	}
	for _, addr := range []string{"198.51.100.7", "203.0.113.7", "2001:db8:1::7"} {
		table := v4.LookupPrefix
		if netip.MustParseAddr(addr).Is6() {
			table = v6.LookupPrefix
		}
		prefix, hop, ok := table(netip.MustParseAddr(addr))
		fmt.Println(addr, prefix, hop, ok, hop == lookup.Miss)
	}
	// Output:
	// 198.51.100.7 198.51.100.0/24 1 true false
	// 203.0.113.7 invalid Prefix 0 false true
	// 2001:db8:1::7 2001:db8:1::/48 1 true false
}
