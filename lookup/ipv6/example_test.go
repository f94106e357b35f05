package ipv6_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv6"
)

func Example() {
	table := ipv6.New()
	if err := table.Insert(netip.MustParsePrefix("2001:db8::/32"), 7); err != nil {
		fmt.Println(err)
	}
	src := [][16]byte{netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db9::1").As16()}
	dst := make([]lookup.NextHopID, len(src))
	table.LookupBatch(dst, src)
	fmt.Println(dst)
	// Output: [7 0]
}
