package device

import (
	"encoding/binary"
	"fmt"
	"structs"

	"github.com/warproute/warproute/ipsec/schedule"
	"github.com/warproute/warproute/ipsec/suite"
)

//go:generate go test -run ^TestCHeader$ -update .

// MaxLanes is how many lanes may work on a packet together.
const MaxLanes = 32

// Key is what a device needs of the keys of a security association, which goes one way, and
// what can be computed from them beforehand: struct esp_key of key.h. Words are in the
// machine's byte order, which is little-endian on all that have such devices, and blocks
// of AES are words as they lie in memory. On a device a Key lies at a multiple of 16 bytes,
// which its size is, too.
//
// A packet brings its key along to where it is protected, and room is scarce there. So parts
// are there only if the suite and the direction need them, as long as they need be, one
// behind the other: see Used. A part is whole lines, which are counted from the Key's
// beginning on.
type Key struct {
	_ structs.HostLayout

	Cipher, Auth uint8 // suite.Cipher, suite.Auth
	Rounds       uint8 // of AES
	IVWords      uint8 // lengths in words of 4 bytes
	ICVWords     uint8
	AlignWords   uint8 // of text

	// The line at which a part begins. Round keys of AES, in the order of their use, are in
	// line 1 and on: to open by CBC those of the equivalent inverse cipher, else those of
	// encryption. So is the key of ChaCha20.
	Hash  uint8 // GCM: powers of GHASH's key, as schedule.Powers writes them; HMAC: state behind the key xor ipad, SHA-512's upper halves first
	Outer uint8 // HMAC: state behind the key xor opad
	IV    uint8 // CBC, to seal: round keys that IVs are made with
	Lines uint8 // all that there are
	_     [2]uint8
	Salt  uint32 // as it lies in memory

	parts [maxLines - 1]line
}

// line is what a device loads at once.
type line = [4]uint32

// LineBytes is how many bytes of a key a device reads at once.
const LineBytes = 16

// maxLines is how many lines a Key has at most: with those of GCM and a key of 32 bytes.
const maxLines = 1 + schedule.MaxWords/4 + MaxLanes

// NewKey prepares the keys of an association whose packets are opened, or sealed. key is
// the cipher's with the salt behind it, as suite.New takes it. Neither is kept, but what is
// computed from them is, until Zero.
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
		Lines: 1,
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

// add adds all parts.
func (k *Key) add(s *suite.Suite, key, authKey []byte, open bool) error {
	switch s.Cipher {
	case suite.ChaCha20:
		_, part := k.part(s.KeyLen / LineBytes)
		for i := range part {
			for j := range part[i] {
				part[i][j] = binary.LittleEndian.Uint32(key[LineBytes*i+4*j:])
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
		first, part := k.part(MaxLanes)
		k.Hash = first
		schedule.Powers(part, &h)
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

// part makes the key longer by a part of so many lines, the first of which is first.
func (k *Key) part(lines int) (first uint8, part []line) {
	first = k.Lines
	k.Lines += uint8(lines)
	return first, k.parts[first-1:][:lines]
}

// addSchedule adds the round keys of AES.
func (k *Key) addSchedule(key []byte, inverse bool) (first, rounds uint8) {
	var w, inverted [schedule.MaxWords]uint32
	n := schedule.Expand(w[:], key)
	if inverse {
		schedule.Invert(inverted[:], w[:], n)
		w = inverted
	}
	first, part := k.part(n + 1)
	for i := range part {
		part[i] = line(w[4*i:])
	}
	clear(w[:])
	clear(inverted[:])
	return first, uint8(n)
}

// Used returns how many bytes of the key, from its beginning on, a device needs: for any packet
// at most, and without the lines of which a packet needs no more than its text has blocks, and one:
// the powers of GHASH's key, which come last.
func (k *Key) Used() (most, fixed int) {
	most, fixed = LineBytes*int(k.Lines), LineBytes*int(k.Lines)
	if suite.Cipher(k.Cipher) == suite.GCM {
		fixed -= LineBytes * MaxLanes
	}
	return most, fixed
}

// Zero overwrites all of the key.
func (k *Key) Zero() { *k = Key{} }
