package ipsec

import (
	"crypto/aes"
	"crypto/cipher"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/ipsec/suite"
)

// One packet of 1408 bytes in a tunnel, beside what crypto/cipher alone does with it
// and its trailer.
func BenchmarkEncapsulate(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	b.Run("library/aes128gcm16", func(b *testing.B) {
		block, _ := aes.NewCipher(make([]byte, 16))
		aead, _ := cipher.NewGCM(block)
		p, nonce, aad := make([]byte, 1412+16), make([]byte, 12), make([]byte, 8)
		b.SetBytes(1408)
		for b.Loop() {
			aead.Seal(p[:0], nonce, p[:1412], aad)
		}
	})
	for i := range suite.All {
		b.Run(suite.All[i].Name, func(b *testing.B) {
			out := newSA(b, config(rnd, suite.All[i].Name, Tunnel, true), 1)
			p := ipPacket(rnd, true, 17, 1388)
			f := frame(p)
			b.SetBytes(1408)
			for b.Loop() {
				copy(f[frameRoom:], p[:20])
				if _, _, e := out.Encapsulate(0, f, frameRoom, len(p)); e != OK {
					b.Fatal(e)
				}
			}
		})
	}
}

func BenchmarkDecapsulate(b *testing.B) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for i := range suite.All {
		b.Run(suite.All[i].Name, func(b *testing.B) {
			c := config(rnd, suite.All[i].Name, Tunnel, true)
			c.ReplayWindow = 0 // the same packet again and again
			out, in := pair(b, c)
			p := ipPacket(rnd, true, 17, 1388)
			setTOS(p, 0)
			f, at, n := encapsulated(b, out, p)
			sealed := append([]byte(nil), f[at:at+n]...)
			b.SetBytes(1408)
			for b.Loop() {
				copy(f[at:], sealed)
				if _, _, e := in.Decapsulate(0, f, at, n); e != OK {
					b.Fatal(e)
				}
			}
		})
	}
}
