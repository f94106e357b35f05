package ipsec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/warproute/warproute/ipsec/suite"
)

// headerLen is that of SPI and sequence number, with which an ESP packet begins.
const headerLen = 8

// library protects packets by Go's crypto packages as their documentation has it, and
// shares nothing with the router but the table of the suites' lengths.
type library struct {
	*suite.Suite
	aead  cipher.AEAD
	block cipher.Block
	mac   hash.Hash
	first [aes.BlockSize]byte // salt, IV and, of counter mode, its first counter (RFC 3686)
}

func newLibrary(s *suite.Suite, k keys) (l *library, err error) {
	l = &library{Suite: s}
	copy(l.first[:], k.cipher[s.KeyLen:])
	l.first[len(l.first)-1] = 1
	key := k.cipher[:s.KeyLen]
	switch s.Cipher {
	case suite.ChaCha20:
		l.aead, err = chacha20poly1305.New(key)
	case suite.GCM, suite.CTR, suite.CBC:
		if l.block, err = aes.NewCipher(key); err == nil && s.Cipher == suite.GCM {
			l.aead, err = cipher.NewGCM(l.block)
		}
	}
	switch s.Auth {
	case suite.SHA1:
		l.mac = hmac.New(sha1.New, k.auth)
	case suite.SHA256:
		l.mac = hmac.New(sha256.New, k.auth)
	case suite.SHA512:
		l.mac = hmac.New(sha512.New, k.auth)
	}
	if err != nil {
		return nil, fmt.Errorf("%s by Go's crypto packages: %w", s.Name, err)
	}
	return l, nil
}

// parts of an ESP packet: SPI and sequence number, IV, payload and trailer, ICV.
func (l *library) parts(p []byte) (header, iv, body, icv []byte) {
	from, to := headerLen+l.IVLen, len(p)-l.ICVLen
	return p[:headerLen], p[headerLen:from], p[from:to], p[to:]
}

// seal protects an ESP packet in place; all but its ICV is there.
func (l *library) seal(p []byte) {
	header, iv, body, icv := l.parts(p)
	if l.aead != nil {
		l.aead.Seal(body[:0:len(body)+len(icv)], l.nonce(iv), body, header)
		return
	}
	switch l.Cipher {
	case suite.CTR:
		cipher.NewCTR(l.block, l.counter(iv)).XORKeyStream(body, body)
	case suite.CBC:
		cipher.NewCBCEncrypter(l.block, iv).CryptBlocks(body, body)
	}
	copy(icv, l.sum(p))
}

// open verifies an ESP packet and writes its payload and trailer to dst, which is
// large enough, or where they are; it reports false for a forgery.
func (l *library) open(dst, p []byte) ([]byte, bool) {
	header, iv, body, icv := l.parts(p)
	if l.aead != nil {
		out, err := l.aead.Open(dst[:0], l.nonce(iv), p[headerLen+l.IVLen:], header)
		return out, err == nil
	}
	if !hmac.Equal(l.sum(p), icv) {
		return nil, false
	}
	dst = dst[:len(body)]
	switch l.Cipher {
	case suite.CTR:
		cipher.NewCTR(l.block, l.counter(iv)).XORKeyStream(dst, body)
	case suite.CBC:
		cipher.NewCBCDecrypter(l.block, iv).CryptBlocks(dst, body)
	default:
		copy(dst, body)
	}
	return dst, true
}

func (l *library) nonce(iv []byte) []byte {
	copy(l.first[l.SaltLen:], iv)
	return l.first[:l.SaltLen+l.IVLen]
}

func (l *library) counter(iv []byte) []byte {
	l.nonce(iv)
	return l.first[:]
}

// sum is the ICV of an ESP packet, by everything before it.
func (l *library) sum(p []byte) []byte {
	l.mac.Reset()
	l.mac.Write(p[:len(p)-l.ICVLen])
	return l.mac.Sum(nil)[:l.ICVLen]
}

// trailerLen is how long what stands between a payload of n bytes and the ICV is.
func (l *library) trailerLen(n int) int { return 2 + (-n-2)&(l.Align-1) }

// trailer returns that (RFC 4303 section 2.4).
func (l *library) trailer(n int, next byte) []byte {
	b := make([]byte, l.trailerLen(n))
	pad := len(b) - 2
	for i := range pad {
		b[i] = byte(i + 1)
	}
	b[pad], b[pad+1] = byte(pad), next
	return b
}
