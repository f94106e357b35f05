package batch_test

import (
	"fmt"

	"github.com/warproute/warproute/batch"
)

// A worker fills the In column of a chunk, an engine fills the Out column, and the worker acts on
// the verdicts.
func Example() {
	c := batch.NewChunks(1, 64)[0] // of up to 64 packets

	// The worker lists received frames.
	c.In[0] = batch.Frame{Addr: 256, Len: 98, Origin: batch.From(1)}
	c.In[1] = batch.Frame{Addr: 2304, Len: 1514, Origin: batch.From(1)}
	c.In[2] = batch.Frame{Addr: 4352, Len: 98, Origin: batch.From(2)}
	c.N = 3

	// The engine decides.
	c.Out[0] = batch.ForwardTo(2, c.In[0].Addr, c.In[0].Len)
	c.Out[1] = batch.DropTooBig(1400)
	c.Out[2] = batch.HoldFor(7)

	// The worker transmits, drops or holds.
	for i, r := range c.Out[:c.N] {
		fmt.Printf("port %d: %v", c.In[i].Origin.Port(), r.Verdict)
		switch r.Verdict.Action() {
		case batch.ActionForward:
			fmt.Printf(", %d bytes", r.Len())
		case batch.ActionDrop:
			fmt.Printf(", MTU %d", r.MTU())
		case batch.ActionHold:
			fmt.Printf(", adjacency %d", r.Adjacency())
		}
		fmt.Println()
	}
	// Output:
	// port 1: forward: port 2, 98 bytes
	// port 1: drop: mtu_exceeded, MTU 1400
	// port 2: hold, adjacency 7
}
