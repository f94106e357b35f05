package schedule_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/warproute/warproute/ipsec/schedule"
)

// The last round key of FIPS 197 appendix A.1.
func Example() {
	key, err := hex.DecodeString("2b7e151628aed2a6abf7158809cf4f3c")
	if err != nil {
		panic(err)
	}
	var words [schedule.MaxWords]uint32
	rounds := schedule.Expand(words[:], key)
	var last []byte
	for _, w := range words[4*rounds : 4*rounds+4] {
		last = binary.NativeEndian.AppendUint32(last, w)
	}
	fmt.Printf("%d rounds, %x\n", rounds, last)
	// Output: 10 rounds, d014f9a8c9ee2589e13f0cc8b6630ca6
}
