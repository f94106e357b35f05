package gcm_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/warproute/warproute/ipsec/gcm"
)

// Seal and crypto/cipher give the same ciphertext and tag.
func Example() {
	const text = "a packet"
	key, nonce, aad := make([]byte, 16), []byte("saltIVIVIVIV"), []byte("SPI+seq.")
	block, _ := aes.NewCipher(key)
	reference, _ := cipher.NewGCM(block)
	want := reference.Seal(nil, nonce, []byte(text), aad)

	same := true
	if gcm.Available() { // AVX-512
		k, err := gcm.NewKey(key)
		if err != nil {
			panic(err)
		}
		defer k.Zero()
		first := gcm.First(binary.NativeEndian.Uint32(nonce), binary.NativeEndian.Uint64(nonce[4:]))
		p, tag := []byte(text), [gcm.TagLen]byte{}
		k.Seal(p, &tag, first, gcm.Block{Low: binary.LittleEndian.Uint64(aad)}, len(aad))
		same = string(p)+string(tag[:]) == string(want)
	}
	fmt.Println(same)
	// Output: true
}
