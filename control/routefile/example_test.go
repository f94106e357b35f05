package routefile_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/warproute/warproute/control/routefile"
)

// The output of `ip route` answers lookups without a router.
func Example() {
	const text = `default via 192.0.2.1 dev eth0
198.51.100.0/24 via 192.0.2.2 dev eth1 metric 100
203.0.113.0/24
	nexthop via 192.0.2.1 dev eth0 weight 1
	nexthop via 192.0.2.2 dev eth1 weight 2
`
	routes, err := routefile.Read("routes.txt", strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	table, err := routefile.NewTable(routes)
	if err != nil {
		panic(err)
	}
	for _, addr := range []string{"198.51.100.7", "203.0.113.7", "192.0.2.77"} {
		route, _ := table.Lookup(netip.MustParseAddr(addr))
		for _, path := range route.Paths {
			fmt.Println(addr, "by", route.Prefix, "via", path.Via, "dev", path.Dev, "weight", path.Weight)
		}
	}
	// Output:
	// 198.51.100.7 by 198.51.100.0/24 via 192.0.2.2 dev eth1 weight 1
	// 203.0.113.7 by 203.0.113.0/24 via 192.0.2.1 dev eth0 weight 1
	// 203.0.113.7 by 203.0.113.0/24 via 192.0.2.2 dev eth1 weight 2
	// 192.0.2.77 by 0.0.0.0/0 via 192.0.2.1 dev eth0 weight 1
}
