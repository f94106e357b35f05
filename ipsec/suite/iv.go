package suite

import (
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
)

// PutNonce writes a packet's 64-bit nonce to dst, the packet's IV field, in network
// byte order and right-aligned. No nonce is used twice with a key.
//
// It is the whole IV of GCM, CTR and ChaCha20, which need only that (RFC 4106 section
// 3.1, RFC 3686 section 3.1, RFC 7634 section 2). EncryptIV does the rest for CBC.
func PutNonce(dst []byte, nonce uint64) {
	switch len(dst) {
	case 8:
		binary.BigEndian.PutUint64(dst, nonce)
	case aes.BlockSize:
		binary.BigEndian.PutUint64(dst, 0)
		binary.BigEndian.PutUint64(dst[8:], nonce)
	}
}

// EncryptIV makes a CBC packet's IV of the nonce that PutNonce wrote, in place; other
// suites' IVs stay as they are. A CBC IV must be unpredictable (RFC 3602 section 3):
// who knows it before he chooses a plaintext can have guesses of earlier ones
// confirmed. AES with IVKey makes it look random to an observer.
func (t *Transform) EncryptIV(iv []byte) {
	if t.suite.IVLen == aes.BlockSize {
		t.iv.Encrypt(iv, iv)
	}
}

// IVKey returns the AES-128 key that CBC IVs are made with. It is derived from the
// cipher's key, without salt, so that every engine makes the same packet of the same
// nonce, and so that IVs stay distinct over a restart.
func (s *Suite) IVKey(key []byte) (k [16]byte) {
	m := newMAC(sha256.New, key) // crypto/hmac would keep the key
	copy(k[:], m.sum([]byte("ESP AES-CBC IV"), 0, false))
	clear(m.digest[:])
	wipe(m.hash)
	m.zero()
	return k
}

// HashKey returns the key of GHASH: zeros encrypted by AES (NIST SP 800-38D section 7.1).
func HashKey(key []byte) (h [aes.BlockSize]byte, err error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return h, err
	}
	block.Encrypt(h[:], h[:])
	wipe(block)
	return h, nil
}
