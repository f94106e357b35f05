package device

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/crypto/chacha20"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/schedule"
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
		require.NoError(t, err)
		forwards, backwards := &Key{Segments: 1}, &Key{Segments: 1}
		_, forwards.Rounds = forwards.addSchedule(key, false)
		_, backwards.Rounds = backwards.addSchedule(key, true)
		sealed := make([]byte, 16)
		block.Encrypt(sealed, text)
		requests = append(requests,
			&request{operation: aesEncrypt, key: forwards, packet: bytes.Clone(text)},
			&request{operation: aesDecrypt, key: backwards, packet: bytes.Clone(sealed)})
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
	element := func(high, low uint64) schedule.Element { return schedule.Element{High: high, Low: low} }
	var operands []schedule.Element
	zero := element(0, 0)
	for power := element(1<<63, 0); power != zero; power = element(power.High>>1, power.Low>>1|power.High<<63) {
		operands = append(operands, element(rnd.Uint64(), rnd.Uint64()), power)
	}
	operands = append(operands, zero, element(^uint64(0), ^uint64(0)), element(^uint64(0), 0), element(0, ^uint64(0)),
		element(0x8888888888888888, 0x8888888888888888), element(0x1111111111111111, 0x1111111111111111))
	block := func(e schedule.Element) (b []byte) {
		for _, w := range []uint64{e.Low, e.High} {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	var requests []*request
	var want []schedule.Element
	for _, a := range operands {
		for _, b := range append(slices.Clone(operands[len(operands)-6:]), operands[rnd.IntN(len(operands))], a) {
			requests = append(requests, &request{operation: ghashMultiply, packet: append(block(a), block(b.Over())...)})
			want = append(want, schedule.Product(a, b))
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
	require.NoError(t, err)
	var requests []*request
	var want [][]byte
	for i := range 200 {
		key, nonce := random(rnd, 32), random(rnd, 12)
		k, err := NewKey(s, append(bytes.Clone(key), nonce[:4]...), nil, i%2 == 0)
		require.NoError(t, err)
		c, err := chacha20.NewUnauthenticatedCipher(key, nonce)
		require.NoError(t, err)
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
