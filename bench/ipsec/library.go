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

// headerLen is the length of SPI and sequence number.
const headerLen = 8

// library encrypts and decrypts ESP packets with Go's crypto packages. It shares only the table of
// suite lengths with the router.
type library struct {
	*suite.Suite
	aead  cipher.AEAD
	block cipher.Block
	mac   hash.Hash
	first [aes.BlockSize]byte // salt, IV and, in counter mode, the first counter (RFC 3686)
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
		return nil, fmt.Errorf("%s with Go's crypto packages: %w", s.Name, err)
	}
	return l, nil
}

// parts splits an ESP packet into header, IV, payload with trailer, and ICV.
func (l *library) parts(p []byte) (header, iv, body, icv []byte) {
	from, to := headerLen+l.IVLen, len(p)-l.ICVLen
	return p[:headerLen], p[headerLen:from], p[from:to], p[to:]
}

// seal encrypts an ESP packet in place and writes its ICV.
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

// open verifies an ESP packet and decrypts payload and trailer to dst, possibly in place. It is not ok
// for a forgery.
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

// sum returns the ICV of an ESP packet.
func (l *library) sum(p []byte) []byte {
	l.mac.Reset()
	l.mac.Write(p[:len(p)-l.ICVLen])
	return l.mac.Sum(nil)[:l.ICVLen]
}

// trailerLen returns the length of padding, pad length and next header after n bytes.
func (l *library) trailerLen(n int) int { return 2 + (-n-2)&(l.Align-1) }

// trailer returns padding, pad length and next header (RFC 4303 section 2.4).
func (l *library) trailer(n int, next byte) []byte {
	b := make([]byte, l.trailerLen(n))
	pad := len(b) - 2
	for i := range pad {
		b[i] = byte(i + 1)
	}
	b[pad], b[pad+1] = byte(pad), next
	return b
}
