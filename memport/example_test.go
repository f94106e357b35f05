package memport_test

import (
	"fmt"
	"log"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// A frame is received on port 0 and transmitted on port 1.
func Example() {
	mem, err := umem.New(8192)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool := umem.NewPool(mem)
	in, out := memport.New(0, mem, pool), memport.New(1, mem, pool)
	in.Play([][]byte{[]byte("an Ethernet frame")}, 1)
	out.Collect(func(frame []byte) { fmt.Printf("%s\n", frame) })

	frames := make([]batch.Frame, 64)
	in.Refill()
	n := in.Receive(frames)
	out.Transmit(frames[:n])
	out.Reclaim()
	// Output: an Ethernet frame
}
