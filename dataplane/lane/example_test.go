package lane_test

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// BGP enters the first lane, other packets the last.
func Example() {
	lanes, err := lane.Compile([]lane.Lane{
		{Name: "control", Deadline: 100 * time.Microsecond, Match: []lane.Match{{Protocol: packet.TCP, DstPorts: lane.Range{First: 179, Last: 179}}}},
		{Name: "rest", Deadline: time.Millisecond},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mem := make([]byte, 4096)
	bgp := testutil.Edit(testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 179), 9, byte(packet.TCP))
	dns := testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53, 1, 2, 3, 4)
	frames := []batch.Frame{{Addr: 0, Len: uint16(copy(mem, bgp))}, {Addr: 2048, Len: uint16(copy(mem[2048:], dns))}}

	found := make([]uint8, len(frames))
	lanes.NewClassifier().Classify(mem, frames, found)
	for _, i := range found {
		fmt.Println(lanes.All()[i].Name)
	}
	// Output:
	// control
	// rest
}
