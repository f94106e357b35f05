package suite

import (
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
)

// PutIV writes the IV of the packet with a sequence number, all 64 bits of it, to
// dst, which is IVLen long. As no number is used twice with a key, no IV is.
//
// GCM, CTR and ChaCha20 only need that: their IV is the number, as RFC 4106 section
// 3.1, RFC 3686 section 3.1 and RFC 7634 section 2 propose. A CBC IV must also be
// unpredictable (RFC 3602 section 3): who knows it before he chooses a plaintext can
// have guesses of earlier ones confirmed. It is the number encrypted by AES with
// IVKey, which an observer cannot tell from random.
func (t *Transform) PutIV(dst []byte, seq uint64) {
	switch t.suite.IVLen {
	case 8:
		binary.BigEndian.PutUint64(dst, seq)
	case aes.BlockSize:
		binary.BigEndian.PutUint64(t.counter[0:], 0)
		binary.BigEndian.PutUint64(t.counter[8:], seq)
		t.iv.Encrypt(dst, t.counter[:])
	}
}

// IVKey returns the AES-128 key that CBC IVs are made with. It is derived from the
// cipher's key, without salt, so that every engine makes the same packet of the same
// number, and so that IVs stay distinct over a restart.
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
