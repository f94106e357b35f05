package umem_test

import (
	"fmt"
	"log"

	"github.com/warproute/warproute/umem"
)

// A pool hands out frames of a UMEM and takes them back by the address of any byte.
func Example() {
	mem, err := umem.New(1024)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool := umem.NewPool(mem)

	packet := pool.Take() + umem.DataOffset // the Ethernet header begins here
	copy(mem.Bytes()[packet:], "\xff\xff\xff\xff\xff\xff")
	fmt.Println(mem.Frames()-pool.Len(), "frame in use")
	pool.Put(packet)
	fmt.Println(mem.Frames()-pool.Len(), "frames in use")
	// Output:
	// 1 frame in use
	// 0 frames in use
}
