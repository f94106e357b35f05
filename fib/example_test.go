package fib_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/fib"
)

// A route over a gateway: port, adjacency, next hop, prefix. Resolving the gateway changes the
// adjacency alone.
func Example() {
	const port = 1
	f := fib.New(0)
	f.SetPort(port, 0x020000000001, 1500)
	adjacency, err := f.NewAdjacency(port)
	if err != nil {
		panic(err)
	}
	hop, err := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
	if err != nil {
		panic(err)
	}
	if err := f.IPv4.Insert(netip.MustParsePrefix("192.0.2.0/24"), hop); err != nil {
		panic(err)
	}
	f.SetAdjacency(adjacency, port, 0x020000000002)
	f.Commit()

	prefix, id, _ := f.IPv4.LookupPrefix(netip.MustParseAddr("192.0.2.7"))
	word := f.NextHop(id)
	a := f.Adjacency(word.Index())
	fmt.Println(prefix, word.Kind(), "port", a.Port(), "to", a.MAC(), "from", f.Port(a.Port()).MAC())
	// Output: 192.0.2.0/24 forward port 1 to 02:00:00:00:00:02 from 02:00:00:00:00:01
}
