package device

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"structs"

	"github.com/warproute/warproute/ipsec/schedule"
	"github.com/warproute/warproute/ipsec/suite"
)

//go:generate go test -run ^TestCHeader$ -update .

// MaxPowers is the number of powers of GHASH's key: twice that of the most lanes that share a packet (gcm.h).
const MaxPowers = 32

// Key is the key record of an SA on a device: keys, and values computed from them, for one direction.
// It is struct esp_key of key.h. Words are in the byte order of GPUs, little-endian; AES blocks are
// words in memory order. On a device a Key is aligned to 16 bytes, of which its size is a multiple.
//
// The kernel copies keys to shared memory, which is scarce. So a Key contains only the fields that the
// suite and the direction need, without gaps: see Used. Fields are whole segments of 16 bytes,
// numbered from the beginning of the Key.
type Key struct {
	_ structs.HostLayout

	Cipher, Auth uint8 // suite.Cipher, suite.Auth
	Rounds       uint8 // of AES
	IVWords      uint8 // lengths in words of 4 bytes
	ICVWords     uint8
	AlignWords   uint8 // of text

	// Numbers of the first segment of fields. The key of ChaCha20 or the AES round keys, in the order of
	// their use, begin at segment 1. To open CBC they are those of the equivalent inverse cipher.
	Hash     uint8 // GCM: powers of GHASH's key, as schedule.Powers writes them; HMAC: state after key xor ipad, SHA-512's upper halves first
	Outer    uint8 // HMAC: state after key xor opad
	IV       uint8 // CBC, to seal: round keys that encrypt IVs
	Segments uint8 // number of all segments
	_        [2]uint8
	Salt     uint32 // in memory order

	body [maxSegments - 1]segment

	// Behind the segments, and not copied with them.
	Tunnel  uint32 // number of the SA's tunnel, as policies name it
	Headers uint32 // in front of ESP: HeadersIPv6 and HeadersUDP, and how DF is set
	// In memory order. Outbound only, but for Dst.
	SPI, Ports uint32    // source and destination port of UDP
	Dst, Src   [4]uint32 // addresses of the outer header; IPv4: the first word
	NonceBase  [2]uint32 // the lower half first, as numbers; see ipsec.Nonces
	_          [2]uint32
}

// OpensCBC reports whether the key is that of an inbound SA with AES-CBC: see ipsec.SA.OpensCBC.
func (k *Key) OpensCBC() bool { return suite.Cipher(k.Cipher) == suite.CBC && k.IV == 0 }

// Headers in front of ESP: bits of Key.Headers. Without the last two, DF of an outer IPv4 header is clear.
const (
	HeadersIPv6 = 1 << iota
	HeadersUDP
	HeadersSetDF
	HeadersCopyDF // of the inner header
)

// SetHeaders describes the headers in front of ESP: their addresses, and the ports of UDP if udp is set.
func (k *Key) SetHeaders(src, dst netip.Addr, udp bool, sport, dport uint16) {
	k.Headers, k.Src, k.Dst, k.Ports = 0, words(src), words(dst), 0
	if dst.Is6() {
		k.Headers |= HeadersIPv6
	}
	if udp {
		k.Headers |= HeadersUDP
		k.Ports = bits.ReverseBytes32(uint32(sport)<<16 | uint32(dport))
	}
}

// words returns an address in memory order.
func words(a netip.Addr) (w [4]uint32) {
	b := a.AsSlice()
	for i := range len(b) / 4 {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

// SetOutbound completes SetHeaders for packets to seal. df has HeadersSetDF or HeadersCopyDF or neither.
func (k *Key) SetOutbound(spi, df uint32) {
	k.SPI = bits.ReverseBytes32(spi)
	k.Headers |= df
}

// SetNonceBase sets the base of nonces: see ipsec.Nonces.
func (k *Key) SetNonceBase(base uint64) { k.NonceBase = [2]uint32{uint32(base), uint32(base >> 32)} }

// segment is the memory that a lane loads at once.
type segment = [4]uint32

// SegmentBytes is the size of a segment.
const SegmentBytes = 16

// maxSegments is the largest number of segments of a Key: with GCM and a key of 32 bytes.
const maxSegments = 1 + schedule.MaxWords/4 + MaxPowers

// NewKey returns the key record of an SA whose packets are opened, or sealed. key is the cipher's
// with the salt behind it, as for suite.New. The record does not refer to key and authKey.
func NewKey(s *suite.Suite, key, authKey []byte, open bool) (*Key, error) {
	if want := s.KeyLen + s.SaltLen; len(key) != want {
		return nil, fmt.Errorf("prepare a key for a device: %s takes a key of %d bytes with the salt, not %d", s.Name, want, len(key))
	}
	if len(authKey) != s.AuthKeyLen {
		return nil, fmt.Errorf("prepare a key for a device: %s takes an authentication key of %d bytes, not %d", s.Name, s.AuthKeyLen, len(authKey))
	}
	k := &Key{
		Cipher: uint8(s.Cipher), Auth: uint8(s.Auth),
		IVWords: uint8(s.IVLen / 4), ICVWords: uint8(s.ICVLen / 4), AlignWords: uint8(s.Align / 4),
		Segments: 1,
	}
	if s.SaltLen > 0 {
		k.Salt = binary.LittleEndian.Uint32(key[s.KeyLen:])
	}
	if err := k.add(s, key[:s.KeyLen], authKey, open); err != nil {
		k.Zero()
		return nil, fmt.Errorf("prepare a key for a device: %s: %w", s.Name, err)
	}
	return k, nil
}

// add adds all fields.
func (k *Key) add(s *suite.Suite, key, authKey []byte, open bool) error {
	switch s.Cipher {
	case suite.ChaCha20:
		_, field := k.grow(s.KeyLen / SegmentBytes)
		for i := range field {
			for j := range field[i] {
				field[i][j] = binary.LittleEndian.Uint32(key[SegmentBytes*i+4*j:])
			}
		}
	case suite.CBC, suite.CTR, suite.GCM:
		_, k.Rounds = k.addSchedule(key, s.Cipher == suite.CBC && open)
	}
	if s.Cipher == suite.GCM {
		h, err := suite.HashKey(key)
		if err != nil {
			return err
		}
		first, field := k.grow(MaxPowers)
		k.Hash = first
		schedule.Powers(field, &h)
		clear(h[:])
	}
	if err := k.addAuth(s.Auth, authKey); err != nil {
		return err
	}
	if s.Cipher == suite.CBC && !open {
		ivKey := s.IVKey(key)
		k.IV, _ = k.addSchedule(ivKey[:], false)
		clear(ivKey[:])
	}
	return nil
}

// grow appends n segments to the key. It returns the number of the first, and their memory.
func (k *Key) grow(n int) (first uint8, field []segment) {
	first = k.Segments
	k.Segments += uint8(n)
	return first, k.body[first-1:][:n]
}

// addSchedule adds the round keys of AES.
func (k *Key) addSchedule(key []byte, inverse bool) (first, rounds uint8) {
	var w, inverted [schedule.MaxWords]uint32
	n := schedule.Expand(w[:], key)
	if inverse {
		schedule.Invert(inverted[:], w[:], n)
		w = inverted
	}
	first, field := k.grow(n + 1)
	for i := range field {
		field[i] = segment(w[4*i:])
	}
	clear(w[:])
	clear(inverted[:])
	return first, uint8(n)
}

// Used returns the length in bytes of the prefix of the key that a device needs: at most, and for an
// empty text. The difference is the powers of GHASH's key, which are last: a packet needs one, or
// a segment, for each block of its text.
func (k *Key) Used() (most, fixed int) {
	most, fixed = SegmentBytes*int(k.Segments), SegmentBytes*int(k.Segments)
	if suite.Cipher(k.Cipher) == suite.GCM {
		fixed -= SegmentBytes * MaxPowers
	}
	return most, fixed
}

// Zero overwrites all of the key.
func (k *Key) Zero() { *k = Key{} }
