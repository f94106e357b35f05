package suite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"math/bits"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/warproute/warproute/ipsec/gcm"
)

// headerLen is the length of SPI and sequence number, the ESP header.
const headerLen = 8

// Transform encrypts and decrypts the packets of one SA in place. It does not allocate, and is for one
// goroutine at a time; goroutines that share an SA have one each.
type Transform struct {
	suite   *Suite
	vectors *gcm.Key     // GCM and CTR, with vector instructions
	aead    cipher.AEAD  // GCM elsewhere, ChaCha20; CTR elsewhere: see ctr
	block   cipher.Block // CTR elsewhere, CBC
	enc     blockMode    // CBC
	dec     blockMode
	iv      cipher.Block // CBC: encrypts IVs
	mac     mac          // HMAC suites

	salt    uint32   // in memory order
	nonce   [12]byte // of combined ciphers: salt and IV
	aad     [12]byte // of combined ciphers: SPI, sequence number
	counter [aes.BlockSize]byte
	scratch []byte // CTR: buffer for the key stream
}

// blockMode is a reusable cipher.BlockMode, as both of crypto/aes are.
type blockMode interface {
	cipher.BlockMode
	SetIV([]byte)
}

// New returns a Transform. key is the cipher's with the salt behind it, as in `ip xfrm`. It keeps
// neither key, but values computed from them, until Zero.
func (s *Suite) New(key, authKey []byte) (*Transform, error) {
	if len(key) != s.KeyLen+s.SaltLen {
		return nil, fmt.Errorf("%s takes a key of %s, not %d", s.Name, s.keyLengths(), len(key))
	}
	if len(authKey) != s.AuthKeyLen {
		return nil, fmt.Errorf("%s takes an authentication key of %d bytes, not %d", s.Name, s.AuthKeyLen, len(authKey))
	}
	t := &Transform{suite: s}
	copy(t.nonce[:], key[s.KeyLen:])
	t.salt = binary.LittleEndian.Uint32(t.nonce[:])
	if err := t.setKey(key[:s.KeyLen]); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	if s.Auth != Combined {
		t.mac = newMAC(s.newHash, authKey)
	}
	return t, nil
}

// Clone returns a Transform with the same keys for another goroutine; t must not be in use meanwhile.
// They share immutable parts, so Zero of one ends both.
func (t *Transform) Clone() *Transform {
	c := *t
	c.scratch = nil
	if t.suite.Cipher == CBC {
		c.chain()
	}
	if t.suite.Auth != Combined {
		c.mac = t.mac.clone(t.suite.newHash)
	}
	return &c
}

// newHash returns the hash function of the suite's HMAC.
func (s *Suite) newHash() hash.Hash {
	switch s.Auth {
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	}
	return sha512.New()
}

// vectors reports whether package gcm encrypts the packets.
var vectors = gcm.Available()

// setKey creates the ciphers.
func (t *Transform) setKey(key []byte) (err error) {
	if vectors && (t.suite.Cipher == GCM || t.suite.Cipher == CTR) {
		t.vectors, err = gcm.NewKey(key)
		return err
	}
	switch t.suite.Cipher {
	case Null:
		return nil
	case ChaCha20:
		t.aead, err = chacha20poly1305.New(key)
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	switch t.suite.Cipher {
	case GCM:
		t.aead, err = cipher.NewGCM(block)
		wipe(block) // copied
	case CTR:
		t.block = block
		t.aead, err = cipher.NewGCM(block)
	case CBC:
		t.block = block
		t.chain()
		ivKey := t.suite.IVKey(key)
		t.iv, err = aes.NewCipher(ivKey[:])
		clear(ivKey[:])
	}
	return err
}

// chain creates CBC encryption and decryption from the block cipher.
func (t *Transform) chain() {
	t.enc = cipher.NewCBCEncrypter(t.block, t.counter[:]).(blockMode)
	t.dec = cipher.NewCBCDecrypter(t.block, t.counter[:]).(blockMode)
}

func (s *Suite) keyLengths() string {
	if s.SaltLen == 0 {
		return fmt.Sprintf("%d bytes", s.KeyLen)
	}
	return fmt.Sprintf("%d bytes (%d and a salt of %d)", s.KeyLen+s.SaltLen, s.KeyLen, s.SaltLen)
}

// Seal encrypts and authenticates p, an ESP packet from the SPI to the end of the ICV: header, IV,
// payload and trailer are complete, and Seal writes the ICV. seqHigh is the upper half of an extended
// sequence number (esn). Payload and trailer are a multiple of Align.
func (t *Transform) Seal(p []byte, seqHigh uint32, esn bool) {
	s := t.suite
	body, end := headerLen+s.IVLen, len(p)-s.ICVLen
	switch s.Cipher {
	case GCM, ChaCha20:
		if t.vectors != nil {
			aad, n := associatedBlock(p, seqHigh, esn)
			t.vectors.Seal(p[body:end], (*[gcm.TagLen]byte)(p[end:]), t.first(p), aad, n)
			return
		}
		copy(t.nonce[4:], p[headerLen:])
		t.aead.Seal(p[body:body], t.nonce[:], p[body:end], t.associated(p, seqHigh, esn))
		return
	case CTR:
		t.ctr(p, body, end)
	case CBC:
		t.enc.SetIV(p[headerLen:body])
		t.enc.CryptBlocks(p[body:end], p[body:end])
	}
	copy(p[end:], t.mac.sum(p[:end], seqHigh, esn))
}

// Open verifies p, an ESP packet as in Seal, in constant time, and decrypts it in place. It reports
// false if the packet is not authentic or has a wrong length. Then the bytes behind the IV are
// undefined, but not plaintext: HMAC suites do not decrypt, and combined ciphers clear their output.
func (t *Transform) Open(p []byte, seqHigh uint32, esn bool) bool {
	s := t.suite
	body, end := headerLen+s.IVLen, len(p)-s.ICVLen
	if end < body || (end-body)%s.Align != 0 {
		return false
	}
	switch s.Cipher {
	case GCM, ChaCha20:
		if t.vectors != nil {
			aad, n := associatedBlock(p, seqHigh, esn)
			return t.vectors.Open(p[body:end], (*[gcm.TagLen]byte)(p[end:]), t.first(p), aad, n)
		}
		copy(t.nonce[4:], p[headerLen:])
		_, err := t.aead.Open(p[body:body], t.nonce[:], p[body:], t.associated(p, seqHigh, esn))
		return err == nil
	}
	if subtle.ConstantTimeCompare(t.mac.sum(p[:end], seqHigh, esn)[:s.ICVLen], p[end:]) != 1 {
		return false
	}
	switch s.Cipher {
	case CTR:
		t.ctr(p, body, end)
	case CBC:
		t.dec.SetIV(p[headerLen:body])
		t.dec.CryptBlocks(p[body:end], p[body:end])
	}
	return true
}

// associated returns the additional authenticated data of combined ciphers (RFC 4106 section 5, RFC
// 7634 section 2.1): the header, with the upper half of an extended sequence number in its middle.
func (t *Transform) associated(p []byte, seqHigh uint32, esn bool) []byte {
	copy(t.aad[0:4], p[0:4])
	if !esn {
		copy(t.aad[4:8], p[4:8])
		return t.aad[:8]
	}
	binary.BigEndian.PutUint32(t.aad[4:8], seqHigh)
	copy(t.aad[8:12], p[4:8])
	return t.aad[:12]
}

// associatedBlock returns the same in the format of package gcm, and its length.
func associatedBlock(p []byte, seqHigh uint32, esn bool) (gcm.Block, int) {
	header := binary.LittleEndian.Uint64(p)
	if !esn {
		return gcm.Block{Low: header}, 8
	}
	return gcm.Block{Low: header&math.MaxUint32 | uint64(bits.ReverseBytes32(seqHigh))<<32, High: header >> 32}, 12
}

// first returns a packet's first counter block, for IVs of 8 bytes.
func (t *Transform) first(p []byte) gcm.Block {
	return gcm.First(t.salt, binary.LittleEndian.Uint64(p[headerLen:]))
}

// ctr encrypts or decrypts p[body:end] in counter mode (RFC 3686): block i is combined with the
// encryption of salt, IV and i+1.
//
// It is used without vector instructions. crypto/cipher allocates a stream per packet, and one block at
// a time takes five times as long. GCM does not allocate, pipelines blocks, and encrypts in the same
// way from counter 2 on: it encrypts all blocks but the first, and its tag is ignored.
func (t *Transform) ctr(p []byte, body, end int) {
	b := p[body:end]
	if t.vectors != nil {
		t.vectors.Counter(b, t.first(p))
		return
	}
	copy(t.nonce[4:], p[headerLen:body])
	copy(t.counter[:], t.nonce[:])
	binary.BigEndian.PutUint32(t.counter[12:], 1)
	t.block.Encrypt(t.counter[:], t.counter[:])
	first := subtle.XORBytes(b, b, t.counter[:])
	b = b[first:]
	if need := len(b) + t.aead.Overhead(); cap(t.scratch) < need {
		t.scratch = make([]byte, max(need, 2048)) // once, with the size of a frame
	}
	copy(b, t.aead.Seal(t.scratch[:0], t.nonce[:], b, nil))
}

// Zero overwrites the keys in the Transform: hash states, salt, and the objects of the standard
// library and x/crypto with their key schedules, which are reached by their addresses. It cannot
// reach copies on stacks and in registers. The Transform must not be in use, and cannot be used
// again.
func (t *Transform) Zero() {
	for _, held := range []any{t.aead, t.block, t.enc, t.dec, t.iv, t.mac.hash} {
		wipe(held)
	}
	if t.vectors != nil {
		t.vectors.Zero()
	}
	t.mac.zero()
	clear(t.scratch)
	*t = Transform{suite: t.suite}
}
