package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// One packet, compared with crypto/cipher.
func BenchmarkSeal(b *testing.B) {
	key := make([]byte, 16)
	block, _ := aes.NewCipher(key)
	library, _ := cipher.NewGCM(block)
	for _, n := range []int{68, 512, 1412} {
		p, nonce, aad := make([]byte, n+TagLen), make([]byte, NonceLen), make([]byte, 8)
		b.Run(fmt.Sprintf("library/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				library.Seal(p[:0], nonce, p[:n], aad)
			}
		})
		if !Available() {
			continue
		}
		k, err := NewKey(key)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("vectors/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				k.Seal(p[:n], (*[TagLen]byte)(p[n:]), First(1, 2), Block{3, 0}, 8)
			}
		})
		b.Run(fmt.Sprintf("open/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				k.Open(p[:n], (*[TagLen]byte)(p[n:]), First(1, 2), Block{3, 0}, 8)
			}
		})
	}
}
