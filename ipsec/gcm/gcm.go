// Package gcm implements AES-GCM (NIST SP 800-38D) and AES-CTR for packets, on processors with AVX-512,
// VAES and VPCLMULQDQ (Intel since Ice Lake, AMD since Zen 4). It takes less than half the time of
// crypto/cipher there.
//
// Neither branches nor addresses depend on secrets.
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

// Key holds the values computed from a key. It is immutable until Zero, and safe for concurrent use.
type Key struct {
	words [layout.Size / 4]uint32
}

// NewKey computes a Key from 16, 24 or 32 bytes. Available must be true.
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
	k.Counter(h[:], Block{}) // encrypts zeros
	var powers [layout.NumPowers][4]uint32
	schedule.Powers(powers[:], &h)
	for i, p := range powers {
		copy(k.words[layout.Powers/4+4*(layout.NumPowers-1-i):], p[:])
	}
	clear(h[:])
	clear(powers[:])
	return k, nil
}

// Prefetch prefetches the Key; the result only keeps the loads.
func (k *Key) Prefetch() int {
	const line = 64 / 4
	var some uint32
	for i := 0; i < len(k.words); i += line {
		some += k.words[i]
	}
	return int(some & 1)
}

// Zero overwrites the Key.
func (k *Key) Zero() { clear(k.words[:]) }

// Block is 16 bytes as words; the first byte is the lowest of Low.
type Block struct{ Low, High uint64 }

// First returns the first counter block of GCM and of RFC 3686: salt and IV in memory order, and 1.
func First(salt uint32, iv uint64) Block {
	return Block{uint64(salt) | iv<<32, iv>>32 | 1<<56}
}

// Seal encrypts p in place and writes the tag of p and of the first aadLen bytes of aad to tag. The
// other bytes of aad are zero.
func (k *Key) Seal(p []byte, tag *[TagLen]byte, first, aad Block, aadLen int) {
	seal512(&k.words[0], start(p), start(p), len(p), first.Low, first.High, aad.Low, aad.High, uint64(aadLen)*8, tag)
}

// Open decrypts p in place if tag is the tag of p and aad. Otherwise it reports false and clears p.
func (k *Key) Open(p []byte, tag *[TagLen]byte, first, aad Block, aadLen int) bool {
	var want [TagLen]byte
	open512(&k.words[0], start(p), start(p), len(p), first.Low, first.High, aad.Low, aad.High, uint64(aadLen)*8, &want)
	if subtle.ConstantTimeCompare(want[:], tag[:]) != 1 {
		clear(p)
		return false
	}
	return true
}

// Counter combines p with the key stream that begins at a counter block, whose last 32 bits count.
func (k *Key) Counter(p []byte, first Block) {
	counter512(&k.words[0], start(p), start(p), len(p), first.Low, first.High)
}

var nothing byte

// start returns the address of p; nothing is read if p is empty.
func start(p []byte) *byte {
	if len(p) == 0 {
		return &nothing
	}
	return &p[0]
}
