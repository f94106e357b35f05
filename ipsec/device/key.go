package device

import (
	"encoding/binary"
	"fmt"
	"structs"

	"github.com/warproute/warproute/ipsec/schedule"
	"github.com/warproute/warproute/ipsec/suite"
)

// MaxLanes is how many lanes may work on a packet together.
const MaxLanes = 32

// Key is what a device needs of the keys of a security association, and what can be
// computed from them beforehand: struct esp_key of key.h. Words are in the machine's
// byte order, which is little-endian on all that have such devices, and blocks of
// AES are words as they lie in memory. On a device a Key lies at a multiple of 16
// bytes, which its size is, too.
type Key struct {
	_ structs.HostLayout

	Cipher, Auth uint8 // suite.Cipher, suite.Auth
	Rounds       uint8 // of AES
	IVWords      uint8 // lengths in words of 4 bytes
	ICVWords     uint8
	AlignWords   uint8 // of text
	_            [6]uint8
	Salt         uint32 // as it lies in memory

	// What more suites need comes first, and what none needs both of is in one place, so
	// that a packet brings few bytes of it along: see Used.
	Encrypt [60]uint32 // round keys of AES in the order of their use; ChaCha20: the key
	rest    [restBytes / 4]uint32
}

// powers are those of GHASH's key, in the rest of a Key for GCM: H, H², and so on, each
// divided by x, as the product of ghash.h wants it. The last bytes of a block are the first
// word.
type powers [MaxLanes][4]uint32

// separate is the rest of a Key for suites that encrypt and authenticate one after the
// other.
type separate struct {
	Inner   [16]uint32 // HMAC: state behind the key xor ipad; SHA-512: upper halves first
	Outer   [16]uint32 // HMAC: state behind the key xor opad
	IV      [44]uint32 // CBC: round keys that IVs are made with
	Decrypt [60]uint32 // CBC: round keys of the equivalent inverse cipher, in the order of their use
}

// NewKey prepares the keys of an association. key is the cipher's with the salt behind
// it, as suite.New takes it. Neither is kept, but what is computed from them is, until Zero.
func NewKey(s *suite.Suite, key, authKey []byte) (*Key, error) {
	if want := s.KeyLen + s.SaltLen; len(key) != want {
		return nil, fmt.Errorf("prepare a key for a device: %s takes a key of %d bytes with the salt, not %d", s.Name, want, len(key))
	}
	if len(authKey) != s.AuthKeyLen {
		return nil, fmt.Errorf("prepare a key for a device: %s takes an authentication key of %d bytes, not %d", s.Name, s.AuthKeyLen, len(authKey))
	}
	k := &Key{
		Cipher: uint8(s.Cipher), Auth: uint8(s.Auth),
		IVWords: uint8(s.IVLen / 4), ICVWords: uint8(s.ICVLen / 4), AlignWords: uint8(s.Align / 4),
	}
	if s.SaltLen > 0 {
		k.Salt = binary.LittleEndian.Uint32(key[s.KeyLen:])
	}
	key = key[:s.KeyLen]
	switch s.Cipher {
	case suite.ChaCha20:
		for i := range s.KeyLen / 4 {
			k.Encrypt[i] = binary.LittleEndian.Uint32(key[4*i:])
		}
	case suite.CBC, suite.CTR, suite.GCM:
		k.Rounds = uint8(schedule.Expand(k.Encrypt[:], key))
	}
	switch s.Cipher {
	case suite.CBC:
		schedule.Invert(k.separate().Decrypt[:], k.Encrypt[:], int(k.Rounds))
		ivKey := s.IVKey(key)
		schedule.Expand(k.separate().IV[:], ivKey[:])
		clear(ivKey[:])
	case suite.GCM:
		h, err := suite.HashKey(key)
		if err != nil {
			return nil, fmt.Errorf("prepare a key for a device: %s: %w", s.Name, err)
		}
		schedule.Powers(k.powers()[:], &h)
		clear(h[:])
	}
	if err := k.setAuth(s.Auth, authKey); err != nil {
		return nil, fmt.Errorf("prepare a key for a device: %s: %w", s.Name, err)
	}
	return k, nil
}

// Zero overwrites all of the key.
func (k *Key) Zero() { *k = Key{} }
