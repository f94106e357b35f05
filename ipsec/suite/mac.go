package suite

import (
	"encoding"
	"encoding/binary"
	"hash"
)

// mac is an HMAC (RFC 2104) with the states of both hashes behind the key's block precomputed.
// crypto/hmac precomputes them, too, but its copy cannot be overwritten.
type mac struct {
	hash         hash.Hash
	restore      encoding.BinaryUnmarshaler // the same object
	inner, outer []byte                     // states behind the key xor ipad and opad
	digest       [64]byte
	high         [4]byte
}

func newMAC(newHash func() hash.Hash, key []byte) mac {
	h := newHash()
	m := mac{inner: keyed(h, key, 0x36), outer: keyed(h, key, 0x5c)}
	return m.clone(newHash)
}

// clone returns a mac with the same key and a hash of its own.
func (m *mac) clone(newHash func() hash.Hash) mac {
	h := newHash()
	return mac{hash: h, restore: h.(encoding.BinaryUnmarshaler), inner: m.inner, outer: m.outer}
}

// keyed returns the state of h behind key xor pad. key is no longer than a block.
func keyed(h hash.Hash, key []byte, pad byte) []byte {
	block := make([]byte, h.BlockSize())
	copy(block, key)
	for i := range block {
		block[i] ^= pad
	}
	h.Reset()
	h.Write(block)
	clear(block)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	h.Reset()
	if err != nil { // never, with hashes of the standard library
		panic("suite: state of a hash: " + err.Error())
	}
	return state
}

// sum returns the HMAC of b and, with extended sequence numbers, their upper half (RFC 4303 section
// 2.2.1). The next call overwrites it.
func (m *mac) sum(b []byte, seqHigh uint32, esn bool) []byte {
	m.set(m.inner)
	m.hash.Write(b)
	if esn {
		binary.BigEndian.PutUint32(m.high[:], seqHigh)
		m.hash.Write(m.high[:])
	}
	d := m.hash.Sum(m.digest[:0])
	m.set(m.outer)
	m.hash.Write(d)
	return m.hash.Sum(m.digest[:0])
}

func (m *mac) set(state []byte) {
	if err := m.restore.UnmarshalBinary(state); err != nil { // never: the hash made it
		panic("suite: state of a hash: " + err.Error())
	}
}

func (m *mac) zero() {
	clear(m.inner)
	clear(m.outer)
}
