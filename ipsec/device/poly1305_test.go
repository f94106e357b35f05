package device

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// number is that of bytes, the lowest first.
func number(b []byte) *big.Int {
	b = bytes.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// power is 2 to the n.
func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

var prime = new(big.Int).Sub(power(130), big.NewInt(5))

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
				// Two blocks of r = 1 or one of r = 2 add up to 2^130 and little more or less.
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
		requests[i] = &request{operation: poly1305Message, packet: bytes.Clone(m)}
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
	clamp, _ := new(big.Int).SetString("0ffffffc0ffffffc0ffffffc0fffffff", 16)
	r, sum := number(key[:16]), new(big.Int)
	r.And(r, clamp)
	for block := range slices.Chunk(message, 16) {
		sum.Add(sum, number(append(bytes.Clone(block), 1)))
		sum.Mul(sum, r).Mod(sum, prime)
	}
	return tagOf(sum, key[16:])
}

func tagOf(sum *big.Int, key []byte) []byte {
	sum = new(big.Int).Mod(sum, prime)
	sum.Add(sum, number(key))
	tag := sum.Mod(sum, power(128)).FillBytes(make([]byte, 16))
	slices.Reverse(tag)
	return tag
}

// limbs are five words, 26 bits apart, and their number.
func limbs(words ...uint32) (b []byte, n *big.Int) {
	n = new(big.Int)
	for i, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
		n.Add(n, new(big.Int).Lsh(big.NewInt(int64(w)), uint(26*i)))
	}
	return b, n
}

// extremes returns all choices of five limbs of some.
func extremes(some ...uint32) (all [][]uint32) {
	all = [][]uint32{nil}
	for range 5 {
		var longer [][]uint32
		for _, a := range all {
			for _, w := range some {
				longer = append(longer, append(slices.Clone(a), w))
			}
		}
		all = longer
	}
	return all
}

// Limbs may be as large as they say, and those of products are as small.
func TestPoly1305MultipliesLargeLimbs(t *testing.T) {
	var requests []*request
	var want []*big.Int
	for _, x := range extremes(0, 1<<26-1, 1<<28-1) {
		for _, y := range [][]uint32{x, {1}, {1<<28 - 1, 1<<28 - 1, 1<<28 - 1, 1<<28 - 1, 1<<28 - 1}, {0, 0, 0, 0, 1<<28 - 1}} {
			y = append(slices.Clone(y), 0, 0, 0, 0)[:5]
			a, m := limbs(x...)
			b, n := limbs(y...)
			requests = append(requests, &request{operation: poly1305Multiply, packet: append(a, b...)})
			want = append(want, n.Mul(n, m).Mod(n, prime))
		}
	}
	run(t, requests...)
	for i, q := range requests {
		var words []uint32
		for j := range 5 {
			words = append(words, binary.LittleEndian.Uint32(q.packet[4*j:]))
			if most := uint32(1<<26 - 1); words[j] > most && (j != 1 || words[j] > most+1<<13) {
				t.Errorf("product %d: limb %d is %#x", i, j, words[j])
			}
		}
		if _, got := limbs(words...); got.Mod(got, prime).Cmp(want[i]) != 0 {
			t.Fatalf("product %d is %v, not %v", i, got, want[i])
		}
	}
}

// The sum of the sums of 32 lanes has limbs of up to 2^31 and some.
func TestPoly1305ReducesLargeLimbs(t *testing.T) {
	key := bytes.Repeat([]byte{0x5a}, 16)
	var requests []*request
	var want [][]byte
	for _, words := range extremes(0, 1, 1<<26-6, 1<<26-1, 1<<27-1, 1<<31+1<<20) {
		b, n := limbs(words...)
		requests = append(requests, &request{operation: poly1305Tag, packet: append(b, key...)})
		want = append(want, tagOf(n, key))
	}
	run(t, requests...)
	for i, q := range requests {
		if got := q.packet[20:]; !bytes.Equal(got, want[i]) {
			t.Fatalf("tag %d: %x, not %x", i, got, want[i])
		}
	}
}
