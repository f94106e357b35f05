package inspect_test

import (
	"fmt"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// A received frame is located in the worker's memory and validated.
func Example() {
	mem := make([]byte, 2*umem.FrameSize)
	frames := inspect.Frames{Mem: mem, Large: len(mem)} // no frame is larger than 2,048 bytes
	n := copy(mem[umem.DataOffset:], testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53))
	received := batch.Frame{Addr: umem.DataOffset, Len: uint16(n), Origin: batch.From(0)}

	p := frames.Packet(received)
	fmt.Println(len(p), "bytes, may be forwarded:", inspect.IPv4(p) == inspect.OK)
	p[19]++ // the last byte of the destination address
	fmt.Println("damaged:", inspect.IPv4(p))
	// Output:
	// 46 bytes, may be forwarded: true
	// damaged: bad_checksum
}
