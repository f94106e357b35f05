package esp_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/umem"
)

// A policy protects a packet: the stage replaces it by an ESP packet, for the engine to look up.
func Example() {
	var g gateway.Gateway
	branch := g.Tunnel("branch")
	sa, err := ipsec.NewSA(ipsec.Config{
		SPI: 0x1000, Direction: ipsec.Out, Tunnel: branch,
		Src: netip.MustParseAddr("203.0.113.1"), Dst: netip.MustParseAddr("203.0.113.2"),
		Suite: "aes128gcm16", Key: make([]byte, 20),
	}, 1)
	if err != nil {
		panic(err)
	}
	if err := g.Add(sa); err != nil {
		panic(err)
	}
	err = g.SetRules([]gateway.Rule{{Direction: ipsec.Out, Policy: policy.Policy{
		Src: netip.MustParsePrefix("192.0.2.0/24"), Dst: netip.MustParsePrefix("198.51.100.0/24"),
		Action: policy.Protect, Target: branch,
	}}})
	if err != nil {
		panic(err)
	}

	f := fib.New(1)
	f.SetPort(0, 0x020000000001, 1500)
	neighbor, _ := f.NewAdjacency(0)
	f.SetAdjacency(neighbor, 0, 0x0200000000aa)
	hop, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: neighbor, Weight: 1})
	if err := f.IPv4.Insert(netip.MustParsePrefix("203.0.113.0/24"), hop); err != nil {
		panic(err)
	}

	mem := make([]byte, umem.FrameSize)
	frames := inspect.Frames{Mem: mem, Large: len(mem)}
	stage := esp.New(f, frames, make([]bool, 1), &g, 0)
	n := copy(mem[umem.DataOffset:], testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53))
	in := []batch.Frame{{Addr: umem.DataOffset, Len: uint16(n), Origin: batch.From(0)}}
	out := make([]batch.Result, 1)
	stage.Apply(in, out)

	p := frames.Packet(in[0])
	fmt.Println("to be looked up:", out[0].Verdict.Reason() == inspect.OK)
	fmt.Println("protocol", p[9], "to", netip.AddrFrom4([4]byte(p[16:])))
	// Output:
	// to be looked up: true
	// protocol 50 to 203.0.113.2
}
