package device

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/crypto/chacha20"

	"github.com/warproute/warproute/ipsec/suite"
)

// random is bytes that are the same in every run.
func random(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestAESBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var requests []*request
	var want [][]byte
	for i := range 600 {
		key, text := random(rnd, 16+8*(i%3)), random(rnd, 16)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		k := &Key{}
		k.Rounds = uint8(expand(k.Encrypt[:], key))
		invert(k.Decrypt[:], k.Encrypt[:], int(k.Rounds))
		sealed := make([]byte, 16)
		block.Encrypt(sealed, text)
		requests = append(requests,
			&request{operation: aesEncrypt, key: k, packet: bytes.Clone(text)},
			&request{operation: aesDecrypt, key: k, packet: bytes.Clone(sealed)})
		want = append(want, sealed, text)
	}
	run(t, requests...)
	for i, q := range requests {
		if !bytes.Equal(q.packet, want[i]) {
			t.Fatalf("operation %d with %d rounds: %x, crypto/aes says %x", q.operation, q.key.Rounds, q.packet, want[i])
		}
	}
}

// Numbers of which all bits are set fill the holes between the bits.
func TestGHASHMultiplies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var operands []element
	for power := (element{high: 1 << 63}); power != (element{}); power = (element{power.high >> 1, power.low>>1 | power.high<<63}) {
		operands = append(operands, element{rnd.Uint64(), rnd.Uint64()}, power)
	}
	operands = append(operands, element{}, element{^uint64(0), ^uint64(0)}, element{^uint64(0), 0}, element{0, ^uint64(0)},
		element{0x8888888888888888, 0x8888888888888888}, element{0x1111111111111111, 0x1111111111111111})
	block := func(e element) (b []byte) {
		for _, w := range []uint64{e.low, e.high} {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	var requests []*request
	var want []element
	for _, a := range operands {
		for _, b := range append(slices.Clone(operands[len(operands)-6:]), operands[rnd.IntN(len(operands))], a) {
			requests = append(requests, &request{operation: ghashMultiply, packet: append(block(a), block(b.over())...)})
			want = append(want, product(a, b))
		}
	}
	run(t, requests...)
	for i, q := range requests {
		if !bytes.Equal(q.packet[:16], block(want[i])) {
			t.Fatalf("product %d is %x, not %x", i, q.packet[:16], block(want[i]))
		}
	}
}

func TestChaCha20Blocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	s, err := suite.ByName("chacha20poly1305")
	if err != nil {
		t.Fatal(err)
	}
	var requests []*request
	var want [][]byte
	for i := range 200 {
		key, nonce := random(rnd, 32), random(rnd, 12)
		k, err := NewKey(s, append(bytes.Clone(key), nonce[:4]...), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := chacha20.NewUnauthenticatedCipher(key, nonce)
		if err != nil {
			t.Fatal(err)
		}
		c.SetCounter(uint32(i))
		stream := make([]byte, 64)
		c.XORKeyStream(stream, stream)
		requests = append(requests, &request{operation: chacha20Block, key: k, counter: uint32(i), packet: append(nonce, make([]byte, 52)...)})
		want = append(want, stream)
	}
	run(t, requests...)
	for i, q := range requests {
		if !bytes.Equal(q.packet, want[i]) {
			t.Fatalf("block %d: %x, x/crypto says %x", i, q.packet, want[i])
		}
	}
}

// Sums close to multiples of 2^130-5 are the ones that are easily reduced wrongly, and
// random messages do not meet them.
func TestPoly1305(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 4))
	zeros, ones := make([]byte, 16), bytes.Repeat([]byte{0xff}, 16)
	small := func(b byte) []byte { return append([]byte{b}, zeros[1:]...) }
	near := func(b byte) []byte { return append([]byte{b}, ones[1:]...) } // 2^128 - 256 + b
	var messages [][]byte
	for _, r := range [][]byte{small(1), small(2), small(4), small(5), ones} {
		for _, s := range [][]byte{zeros, ones} {
			for b := range 256 {
				// (2^128 + x)·1 + ... : with four blocks of r = 1 the sum passes 2^130 - 5.
				messages = append(messages,
					slices.Concat(r, s, near(byte(b))), slices.Concat(r, s, ones, near(byte(b))),
					slices.Concat(r, s, small(byte(b)), ones, ones), slices.Concat(r, s, near(byte(b)), zeros, ones))
			}
		}
	}
	for n := range 200 {
		messages = append(messages, random(rnd, 32+16*(n%20)))
	}
	requests := make([]*request, len(messages))
	for i, m := range messages {
		requests[i] = &request{operation: poly1305Tag, packet: bytes.Clone(m)}
	}
	run(t, requests...)
	for i, q := range requests {
		if want := poly1305(messages[i][:32], messages[i][32:]); !bytes.Equal(q.packet[:16], want) {
			t.Fatalf("tag of %x: %x, not %x", messages[i], q.packet[:16], want)
		}
	}
}

// poly1305 is RFC 8439 section 2.5.1, literally, of whole blocks.
func poly1305(key, message []byte) []byte {
	number := func(b []byte) *big.Int {
		b = bytes.Clone(b)
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	clamp, _ := new(big.Int).SetString("0ffffffc0ffffffc0ffffffc0fffffff", 16)
	r := number(key[:16])
	r.And(r, clamp)
	p := new(big.Int).Lsh(big.NewInt(1), 130)
	p.Sub(p, big.NewInt(5))
	sum := new(big.Int)
	for block := range slices.Chunk(message, 16) {
		sum.Add(sum, number(append(bytes.Clone(block), 1)))
		sum.Mul(sum, r).Mod(sum, p)
	}
	sum.Add(sum, number(key[16:]))
	tag := make([]byte, 17)
	new(big.Int).And(sum, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1))).FillBytes(tag)
	slices.Reverse(tag)
	return tag[:16]
}
