package cpu_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// The engine decides on a chunk of two packets: one has a route by port 1, the other has none.
func Example() {
	f := fib.New(1)
	f.SetPort(0, 0x020000000001, 1500)
	f.SetPort(1, 0x020000000002, 1500)
	neighbor, _ := f.NewAdjacency(1)
	f.SetAdjacency(neighbor, 1, 0x0200000000aa)
	hop, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: neighbor, Weight: 1})
	if err := f.IPv4.Insert(netip.MustParsePrefix("198.51.100.0/24"), hop); err != nil {
		panic(err)
	}

	mem := make([]byte, 2*umem.FrameSize)
	engine := cpu.New(f, mem, make([]bool, 2))
	chunk := batch.NewChunks(1, 64)[0]
	for i, dst := range []string{"198.51.100.7", "203.0.113.7"} {
		at := i*umem.FrameSize + umem.DataOffset
		n := copy(mem[at:], testutil.UDP4("192.0.2.1", dst, 12345, 53))
		chunk.In[i] = batch.Frame{Addr: uint32(at), Len: uint16(n), Origin: batch.From(0)}
	}
	chunk.N = 2
	engine.Submit(chunk)

	for _, r := range chunk.Out[:chunk.N] {
		fmt.Print(r.Verdict)
		if r.Verdict.Action() == batch.ActionForward {
			frame := mem[r.Addr():][:r.Len()]
			fmt.Printf(", to %x, TTL %d", frame[:6], frame[22])
		}
		fmt.Println()
	}
	// Output:
	// forward: port 1, to 0200000000aa, TTL 63
	// drop: no_route
}
