package ipv4_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
)

func Example() {
	table := ipv4.New()
	if err := table.Insert(netip.MustParsePrefix("192.0.2.0/24"), 7); err != nil {
		fmt.Println(err)
	}
	src := []uint32{0xc0000201, 0xc6336401} // 192.0.2.1 and 198.51.100.1
	dst := make([]lookup.NextHopID, len(src))
	table.LookupBatch(dst, src)
	fmt.Println(dst)
	// Output: [7 0]
}
