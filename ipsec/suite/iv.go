package suite

import (
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
)

// PutNonce writes a packet's 64-bit nonce to dst, the IV field, in network byte order and
// right-aligned. No nonce is used twice with a key.
//
// It is the whole IV of GCM, CTR and ChaCha20 (RFC 4106 section 3.1, RFC 3686 section 3.1, RFC 7634
// section 2). EncryptIV completes it for CBC.
func PutNonce(dst []byte, nonce uint64) {
	switch len(dst) {
	case 8:
		binary.BigEndian.PutUint64(dst, nonce)
	case aes.BlockSize:
		binary.BigEndian.PutUint64(dst, 0)
		binary.BigEndian.PutUint64(dst[8:], nonce)
	}
}

// EncryptIV turns the nonce of PutNonce into a CBC packet's IV, in place; IVs of other suites stay.
// A CBC IV must be unpredictable (RFC 3602 section 3), or a chosen plaintext could confirm guesses
// of earlier ones. AES with IVKey makes it look random.
func (t *Transform) EncryptIV(iv []byte) {
	if t.suite.IVLen == aes.BlockSize {
		t.iv.Encrypt(iv, iv)
	}
}

// IVKey returns the AES-128 key for CBC IVs. It is derived from the cipher's key, without salt, so
// that every engine makes the same packet from the same nonce, and IVs stay distinct over restarts.
func (s *Suite) IVKey(key []byte) (k [16]byte) {
	m := newMAC(sha256.New, key) // crypto/hmac would keep a copy of the key
	copy(k[:], m.sum([]byte("ESP AES-CBC IV"), 0, false))
	clear(m.digest[:])
	wipe(m.hash)
	m.zero()
	return k
}

// HashKey returns the key of GHASH: AES of a zero block (NIST SP 800-38D section 7.1).
func HashKey(key []byte) (h [aes.BlockSize]byte, err error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return h, err
	}
	block.Encrypt(h[:], h[:])
	wipe(block)
	return h, nil
}
