package sequences_test

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/sequences"
)

// A router that restarts with the same key continues after the numbers that it used before.
func Example() {
	dir, err := os.MkdirTemp("", "sequences")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	key := make([]byte, 20)
	for range 2 {
		store, err := sequences.Open(dir)
		if err != nil {
			panic(err)
		}
		sa, err := ipsec.NewSA(ipsec.Config{
			SPI: 0x1000, Direction: ipsec.Out, Suite: "aes128gcm16", Key: key,
			Src: netip.MustParseAddr("203.0.113.1"), Dst: netip.MustParseAddr("203.0.113.2"),
		}, 1)
		if err != nil {
			panic(err)
		}
		if err := store.Keep(sequences.Association{SA: sa, Key: key}); err != nil {
			panic(err)
		}
		first, count := sa.Reserve(10)
		fmt.Println("numbers", first, "to", first+uint64(count)-1)
		if err := store.Release(sa); err != nil {
			panic(err)
		}
		if err := store.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// numbers 1 to 10
	// numbers 11 to 20
}
