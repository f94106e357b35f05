// Package gcm is AES in Galois/counter mode (NIST SP 800-38D) and in counter mode, for packets and for
// processors with AVX-512, VAES and VPCLMULQDQ: Intel's since Ice Lake, AMD's since Zen 4. It
// takes less than half the time of crypto/cipher there, which is for the others.
//
// What is secret does not decide on branches nor on addresses.
package gcm

import (
	"crypto/aes"
	"crypto/subtle"
	"fmt"

	"github.com/warproute/warproute/ipsec/gcm/layout"
	"github.com/warproute/warproute/ipsec/schedule"
)

//go:generate go run ./asm -pkg gcm -out crypt_amd64.s -stubs crypt_amd64.go

// Sizes in bytes.
const (
	NonceLen = 12 // salt and IV
	TagLen   = 16
	MaxAAD   = 16
)

// Key is what is computed from a key. It is not changed but by Zero: any number of
// goroutines may use it.
type Key struct {
	words [layout.Size / 4]uint32
}

// NewKey computes it, from 16, 24 or 32 bytes. Available must be true.
func NewKey(key []byte) (*Key, error) {
	if !Available() {
		return nil, fmt.Errorf("AES by vectors: this processor lacks one of AVX-512 (F, BW, VL), VAES, VPCLMULQDQ and BMI2")
	}
	if n := len(key); n != 16 && n != 24 && n != 32 {
		return nil, aes.KeySizeError(n)
	}
	k := &Key{}
	k.words[layout.Rounds/4] = uint32(schedule.Expand(k.words[layout.RoundKeys/4:], key))
	var h [aes.BlockSize]byte
	k.Counter(h[:], Block{}) // the encryption of zeros
	var powers [layout.NumPowers][4]uint32
	schedule.Powers(powers[:], &h)
	for i, p := range powers {
		copy(k.words[layout.Powers/4+4*(layout.NumPowers-1-i):], p[:])
	}
	clear(h[:])
	clear(powers[:])
	return k, nil
}

// Touch reads all of it, for later, and returns something of that.
func (k *Key) Touch() int {
	const line = 64 / 4
	var some uint32
	for i := 0; i < len(k.words); i += line {
		some += k.words[i]
	}
	return int(some & 1)
}

// Zero overwrites all of it.
func (k *Key) Zero() { clear(k.words[:]) }

// Block is 16 bytes as words, the first byte the lowest of Low.
type Block struct{ Low, High uint64 }

// First returns the counter block that GCM begins with, and RFC 3686's counter mode: of a
// salt and an IV as they lie in memory, by words of the lowest byte first, and the number 1.
func First(salt uint32, iv uint64) Block {
	return Block{uint64(salt) | iv<<32, iv>>32 | 1<<56}
}

// Seal encrypts p in place and writes the tag of p and of aad, of which aadLen bytes count
// and the others are zero, to tag.
func (k *Key) Seal(p []byte, tag *[TagLen]byte, first, aad Block, aadLen int) {
	seal512(&k.words[0], start(p), start(p), len(p), first.Low, first.High, aad.Low, aad.High, uint64(aadLen)*8, tag)
}

// Open decrypts p in place if tag is that of p and aad. Otherwise it reports false, and p is
// zeros.
func (k *Key) Open(p []byte, tag *[TagLen]byte, first, aad Block, aadLen int) bool {
	var want [TagLen]byte
	open512(&k.words[0], start(p), start(p), len(p), first.Low, first.High, aad.Low, aad.High, uint64(aadLen)*8, &want)
	if subtle.ConstantTimeCompare(want[:], tag[:]) != 1 {
		clear(p)
		return false
	}
	return true
}

// Counter combines p with the stream of counter mode that begins with a counter block, of
// which the last 32 bits count.
func (k *Key) Counter(p []byte, first Block) {
	counter512(&k.words[0], start(p), start(p), len(p), first.Low, first.High)
}

var nothing byte

// start is where p begins; nothing is read where it is empty.
func start(p []byte) *byte {
	if len(p) == 0 {
		return &nothing
	}
	return &p[0]
}
