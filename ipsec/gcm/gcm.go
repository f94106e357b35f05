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
	NonceLen = 12
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
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	k := &Key{}
	k.words[layout.Rounds/4] = uint32(schedule.Expand(k.words[layout.RoundKeys/4:], key))
	var h [aes.BlockSize]byte
	block.Encrypt(h[:], h[:])
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

// Seal encrypts p in place and writes the tag of p and of aad, which is up to MaxAAD bytes
// long, to tag.
func (k *Key) Seal(p []byte, tag *[TagLen]byte, nonce *[NonceLen]byte, aad []byte) {
	first, block, lengths := k.blocks(p, nonce, aad)
	seal512(&k.words[0], start(p), start(p), len(p), &first, &block, &lengths, tag)
}

// Open decrypts p in place if tag is that of p and aad. Otherwise it reports false, and p is
// zeros.
func (k *Key) Open(p []byte, tag *[TagLen]byte, nonce *[NonceLen]byte, aad []byte) bool {
	first, block, lengths := k.blocks(p, nonce, aad)
	var want [TagLen]byte
	open512(&k.words[0], start(p), start(p), len(p), &first, &block, &lengths, &want)
	if subtle.ConstantTimeCompare(want[:], tag[:]) != 1 {
		clear(p)
		return false
	}
	return true
}

// blocks returns the first counter block, what is authenticated in front of the text, and
// the lengths behind it.
func (k *Key) blocks(p []byte, nonce *[NonceLen]byte, aad []byte) (first, block [16]byte, lengths [2]uint64) {
	if len(aad) > MaxAAD {
		panic("gcm: too much additional data")
	}
	copy(first[:], nonce[:])
	first[15] = 1
	copy(block[:], aad)
	return first, block, [2]uint64{uint64(len(p)) * 8, uint64(len(aad)) * 8}
}

// Counter combines p with the stream of counter mode that begins with a counter block, of
// which the last 32 bits count.
func (k *Key) Counter(p []byte, first *[16]byte) {
	counter512(&k.words[0], start(p), start(p), len(p), first)
}

var nothing byte

// start is where p begins; nothing is read where it is empty.
func start(p []byte) *byte {
	if len(p) == 0 {
		return &nothing
	}
	return &p[0]
}
