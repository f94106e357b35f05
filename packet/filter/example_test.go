package filter_test

import (
	"fmt"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet/filter"
)

func Example() {
	dns, err := filter.Parse("udp dst port 53 and net 192.0.2.0/24")
	if err != nil {
		panic(err)
	}
	fmt.Println(dns.Match(testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53)))
	fmt.Println(dns.Match(testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 443)))
	// Output:
	// true
	// false
}
