// Package schedule computes key schedules: the round keys of AES and the powers of GHASH's key.
// crypto/aes and crypto/cipher do not export theirs. It uses no table, since its addresses would depend
// on the key.
package schedule

import "encoding/binary"

// double multiplies each byte of a word by x, modulo x⁸ + x⁴ + x³ + x + 1.
func double(w uint32) uint32 { return w<<1&0xfefefefe ^ w>>7&0x01010101*0x1b }

// multiply multiplies the bytes of two words.
func multiply(a, b uint32) (product uint32) {
	for range 8 {
		product ^= a & (b & 0x01010101 * 0xff)
		a, b = double(a), b>>1&0x7f7f7f7f
	}
	return product
}

// subWord applies the S-box to each byte of a word: the inverse (the power of 254), then an affine map.
func subWord(w uint32) uint32 {
	power := w
	for range 6 { // w³, w⁷, ..., w¹²⁷
		power = multiply(multiply(power, power), w)
	}
	b := multiply(power, power)
	sum := b
	for range 4 {
		b = b<<1&0xfefefefe | b>>7&0x01010101
		sum ^= b
	}
	return sum ^ 0x63636363
}

// MaxWords is the number of round key words of a 32-byte key.
const MaxWords = 60

// Expand writes the round keys of an AES key (FIPS 197 section 5.2) to w, in the order of use and in
// memory order, and returns the number of rounds: there are four words per round, and four more.
func Expand(w []uint32, key []byte) (rounds int) {
	n := len(key) / 4
	rounds = n + 6
	for i := range n {
		w[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	round := uint32(1)
	for i := n; i < 4*(rounds+1); i++ {
		t := w[i-1]
		switch {
		case i%n == 0:
			t = subWord(t>>8|t<<24) ^ round
			round = double(round)
		case n > 6 && i%n == 4:
			t = subWord(t)
		}
		w[i] = w[i-n] ^ t
	}
	return rounds
}

// Invert writes the round keys of the equivalent inverse cipher (FIPS 197 section 5.3.5) to d: the
// encryption keys w in reverse order, all but the outermost through InvMixColumns.
func Invert(d, w []uint32, rounds int) {
	for i := range 4 * (rounds + 1) {
		round, column := i/4, i%4
		key := w[4*(rounds-round)+column]
		if round != 0 && round != rounds {
			key = invMixColumn(key)
		}
		d[i] = key
	}
}

// invMixColumn multiplies a column, whose first row is the lowest byte.
func invMixColumn(w uint32) uint32 {
	turn := func(w uint32, rows int) uint32 { return w>>(8*rows) | w<<(32-8*rows) }
	return multiply(w, 0x0e0e0e0e) ^ turn(multiply(w, 0x0b0b0b0b), 1) ^ turn(multiply(w, 0x0d0d0d0d), 2) ^ turn(multiply(w, 0x09090909), 3)
}
