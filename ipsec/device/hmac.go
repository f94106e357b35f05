package device

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/warproute/warproute/ipsec/suite"
)

// addAuth adds the states of both hashes of HMAC (RFC 2104) after the key. The key is not longer than
// a block.
func (k *Key) addAuth(auth suite.Auth, key []byte) error {
	var h hash.Hash
	switch auth {
	case suite.SHA1:
		h = sha1.New()
	case suite.SHA256:
		h = sha256.New()
	case suite.SHA512:
		h = sha512.New()
	default:
		return nil
	}
	segments := (h.Size() + SegmentBytes - 1) / SegmentBytes
	inner, field := k.grow(segments)
	if err := state(field, h, key, 0x36); err != nil {
		return err
	}
	outer, field := k.grow(segments)
	k.Hash, k.Outer = inner, outer
	return state(field, h, key, 0x5c)
}

// state writes h's state after key xor pad. A marshaled hash of the standard library has its state
// behind 4 bytes that name the hash, in network byte order.
func state(to []segment, h hash.Hash, key []byte, pad byte) error {
	var block [sha512.BlockSize]byte
	n := copy(block[:h.BlockSize()], key)
	if n < len(key) {
		return fmt.Errorf("authentication key of %d bytes: longer than a block of %d", len(key), n)
	}
	for i := range block {
		block[i] ^= pad
	}
	h.Reset()
	h.Write(block[:h.BlockSize()])
	clear(block[:])
	text, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	h.Reset()
	if err != nil {
		return fmt.Errorf("take the state of a hash: %w", err)
	}
	words := text[4:]
	for i := range h.Size() / 4 {
		to[i/4][i%4] = binary.BigEndian.Uint32(words[4*i:])
	}
	clear(text)
	return nil
}
