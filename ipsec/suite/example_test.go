package suite_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/warproute/warproute/ipsec/suite"
)

// An ESP packet is header, IV, payload with trailer, and ICV.
func Example() {
	s, err := suite.ByName("aes128gcm16")
	if err != nil {
		panic(err)
	}
	transform, err := s.New(make([]byte, s.KeyLen+s.SaltLen), nil)
	if err != nil {
		panic(err)
	}
	defer transform.Zero()

	payload := []byte("twelve bytes\x01\x02\x02\x04") // padding 1 2, its length, next header IPv4
	p := binary.BigEndian.AppendUint32(nil, 0x1000)   // SPI
	p = binary.BigEndian.AppendUint32(p, 1)           // sequence number
	p = append(p, make([]byte, s.IVLen)...)
	suite.PutNonce(p[8:], 1)
	p = append(append(p, payload...), make([]byte, s.ICVLen)...)

	transform.Seal(p, 0, false)
	fmt.Println("encrypted:", !bytes.Contains(p, payload))
	fmt.Println("authentic:", transform.Open(p, 0, false), bytes.Contains(p, payload))
	p[len(p)-1] ^= 1
	fmt.Println("forged:", transform.Open(p, 0, false))
	// Output:
	// encrypted: true
	// authentic: true true
	// forged: false
}
