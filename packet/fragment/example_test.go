package fragment_test

import (
	"bytes"
	"fmt"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

// A packet of 3,028 bytes crosses a link with an MTU of 1,500 bytes, and is reassembled behind it.
func Example() {
	p := testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53, make([]byte, 3000)...)[packet.EthernetLen:]
	split, err := fragment.IPv4(p, 1500)
	if err != nil {
		panic(err)
	}
	r := fragment.NewReassembler(fragment.DefaultLimits)
	buf := make([]byte, 1500)
	for i := range split.Count() {
		n := split.Put(buf, i)
		whole, err := r.Add(0, buf[:n])
		fmt.Println(n, "bytes, complete:", whole != nil, err)
		if whole != nil {
			fmt.Println("equal:", bytes.Equal(whole, p))
		}
	}
	// Output:
	// 1500 bytes, complete: false <nil>
	// 1500 bytes, complete: false <nil>
	// 68 bytes, complete: true <nil>
	// equal: true
}
