package wycheproof

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"
)

// Packet is a test vector in the form of an ESP packet.
type Packet struct {
	Name, Suite  string
	Key, AuthKey []byte // the cipher's with its salt behind it, and the HMAC's
	ESN          bool   // extended sequence numbers, of which High is the half that is not sent
	High         uint32
	ESP          []byte // from the SPI to the end of the ICV
	Text         []byte // plaintext; nil if unknown
	Valid        bool   // to be accepted
	Exact        bool   // the vector as it is; else in the shape of ESP, see shape
}

// form is the format of a suite's packets: lengths in bytes, and the HMAC.
type form struct {
	suite            string
	file             string // of its cipher
	key, iv, text    int    // key without salt; text is a multiple of that
	icv              int
	hash             func() hash.Hash
	macFile          string
	authKey, macTags int // of the vectors that fit
}

var forms = []form{
	{"aes128gcm16", GCM, 16, 8, 4, 16, nil, "", 0, 0},
	{"aes192gcm16", GCM, 24, 8, 4, 16, nil, "", 0, 0},
	{"aes256gcm16", GCM, 32, 8, 4, 16, nil, "", 0, 0},
	{"chacha20poly1305", ChaCha20, 32, 8, 4, 16, nil, "", 0, 0},
	{"aes128ctr-sha1", "", 16, 8, 4, 12, sha1.New, HMACSHA1, 20, 20},
	{"aes128ctr-sha256", "", 16, 8, 4, 16, sha256.New, HMACSHA256, 32, 16},
	{"aes128-sha1", CBC, 16, 16, 16, 12, sha1.New, HMACSHA1, 20, 20},
	{"aes128-sha256", CBC, 16, 16, 16, 16, sha256.New, HMACSHA256, 32, 16},
	{"aes256-sha256", CBC, 32, 16, 16, 16, sha256.New, HMACSHA256, 32, 16},
	{"aes256-sha512", CBC, 32, 16, 16, 32, sha512.New, HMACSHA512, 64, 32},
	{"null-sha256", "", 0, 0, 4, 16, sha256.New, HMACSHA256, 32, 16},
}

// Packets returns the packets of all suites, by suite.
func Packets() (all []Packet, err error) {
	vectors := map[string][]Vector{}
	for _, file := range []string{GCM, ChaCha20, CBC, HMACSHA1, HMACSHA256, HMACSHA512} {
		if vectors[file], err = Read(file); err != nil {
			return nil, err
		}
	}
	for _, f := range forms {
		var of []Packet
		switch {
		case f.file == GCM || f.file == ChaCha20:
			of, err = f.combined(vectors[f.file])
		case f.file == CBC:
			of, err = f.chained(vectors[CBC])
		case f.key != 0:
			of, err = f.counted(vectors[GCM])
		}
		if err != nil {
			return nil, err
		}
		all = append(append(all, of...), f.authenticated(vectors[f.macFile])...)
	}
	return all, nil
}

// header is the SPI and sequence number of packets from vectors without them.
var header = []byte{0, 1, 0, 1, 0, 0, 0, 1}

// combined returns the packets of an AEAD, of the vectors with nonces of 12 bytes.
//
// Associated data of 8 or 12 bytes is the header of an ESP packet. Other vectors are adapted: their
// text is truncated to a multiple of 4 bytes, and the tag is computed with Go's crypto over header
// and ciphertext, with the bits flipped that are wrong in the vector's tag.
func (f *form) combined(vectors []Vector) (all []Packet, err error) {
	for _, v := range vectors {
		if len(v.Key) != f.key || len(v.IV) != 12 {
			continue
		}
		aead, err := newAEAD(f.file, v.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		p := Packet{Name: v.Name, Suite: f.suite, Key: slices.Concat(v.Key, v.IV[:4]), Text: v.Msg, Valid: v.Valid}
		ciphertext, tag, head := v.CT, v.Tag, header
		if p.Exact = (len(v.AAD) == 8 || len(v.AAD) == 12) && len(v.Msg)%f.text == 0; p.Exact {
			head = slices.Concat(v.AAD[:4], v.AAD[len(v.AAD)-4:])
			if p.ESN = len(v.AAD) == 12; p.ESN {
				p.High = binary.BigEndian.Uint32(v.AAD[4:])
			}
		} else {
			right := aead.Seal(nil, v.IV, v.Msg, v.AAD)
			if n := len(v.Msg); string(right[:n]) != string(v.CT) || (string(right[n:]) == string(v.Tag)) != v.Valid {
				return nil, fmt.Errorf("%s: it is not clear what is wrong with an invalid vector", v.Name)
			}
			n := len(v.Msg) - len(v.Msg)%f.text
			p.Text, ciphertext = v.Msg[:n], v.CT[:n]
			tag = aead.Seal(nil, v.IV, p.Text, head)[n:]
			subtle.XORBytes(tag, tag, right[len(v.Msg):])
			subtle.XORBytes(tag, tag, v.Tag)
		}
		p.ESP = slices.Concat(head, v.IV[4:], ciphertext, tag)
		all = append(all, p)
	}
	return all, nil
}

func newAEAD(file string, key []byte) (cipher.AEAD, error) {
	if file == ChaCha20 {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// counted returns the packets of counter mode. GCM's ciphertext begins with counter 2, ESP's with 1,
// so a block of zeros precedes it.
func (f *form) counted(vectors []Vector) (all []Packet, err error) {
	for _, v := range vectors {
		if len(v.Key) != f.key || len(v.IV) != 12 || !v.Valid {
			continue
		}
		block, err := aes.NewCipher(v.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		var first [aes.BlockSize]byte
		block.Encrypt(first[:], slices.Concat(v.IV, []byte{0, 0, 0, 1}))
		n := len(v.Msg) - len(v.Msg)%f.text
		text := slices.Concat(make([]byte, aes.BlockSize), v.Msg[:n])
		all = append(all, f.sealed(v.Name, slices.Concat(v.Key, v.IV[:4]), slices.Concat(header, v.IV[4:], first[:], v.CT[:n]), text))
	}
	return all, nil
}

// chained returns the packets of CBC. All are authentic. Invalid vectors decrypt to wrong PKCS #7
// padding or another message; a packet of incomplete blocks is invalid.
func (f *form) chained(vectors []Vector) (all []Packet, err error) {
	for _, v := range vectors {
		if len(v.Key) != f.key {
			continue
		}
		p := f.sealed(v.Name, v.Key, slices.Concat(header, v.IV, v.CT), nil)
		if p.Valid = len(v.CT)%aes.BlockSize == 0; p.Valid {
			block, err := aes.NewCipher(v.Key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
			p.Text = make([]byte, len(v.CT))
			cipher.NewCBCDecrypter(block, v.IV).CryptBlocks(p.Text, v.CT)
			if right := string(p.Text) == string(pad(v.Msg)); right != v.Valid {
				return nil, fmt.Errorf("%s: decrypted and padded right: %v", v.Name, right)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// pad adds PKCS #7 padding to a message.
func pad(msg []byte) []byte {
	n := aes.BlockSize - len(msg)%aes.BlockSize
	return slices.Concat(msg, slices.Repeat([]byte{byte(n)}, n))
}

// sealed returns an authentic packet of a suite with an HMAC, from the authenticated bytes.
func (f *form) sealed(name string, key, covered, text []byte) Packet {
	p := Packet{Name: name, Suite: f.suite, Key: key, AuthKey: slices.Repeat([]byte{0xa5}, f.authKey), Text: text, Valid: true, Exact: true}
	p.ESP = slices.Concat(covered, f.sum(p.AuthKey, covered))
	return p
}

// authenticated returns the packets with the vectors' HMACs: the message is the packet up to the ICV.
// The HMAC is truncated to the ICV's length, so a vector that is wrong behind it is valid in ESP. An
// invalid vector with a message that is no packet gets another message, with the same wrong bits in the tag.
func (f *form) authenticated(vectors []Vector) (all []Packet) {
	for _, v := range vectors {
		if len(v.Key) != f.authKey || v.TagLen != f.macTags {
			continue
		}
		body := len(v.Msg) - 8 - f.iv
		p := Packet{Name: v.Name, Suite: f.suite, Key: make([]byte, f.key), AuthKey: v.Key, Exact: body >= 0 && body%f.text == 0}
		if f.iv == 8 {
			p.Key = make([]byte, f.key+4) // with a salt
		}
		if !p.Exact && v.Valid {
			continue
		}
		covered, tag := []byte(v.Msg), v.Tag[:f.icv]
		differs := make([]byte, f.icv)
		subtle.XORBytes(differs, f.sum(v.Key, v.Msg), tag)
		p.Valid = string(differs) == string(make([]byte, f.icv))
		if !p.Exact {
			covered = slices.Concat(header, make([]byte, f.iv+f.text))
			tag = f.sum(v.Key, covered)
			subtle.XORBytes(tag, tag, differs)
		}
		p.ESP = slices.Concat(covered, tag)
		all = append(all, p)
	}
	return all
}

// sum returns the ICV of a packet by Go's HMAC.
func (f *form) sum(key, covered []byte) []byte {
	mac := hmac.New(f.hash, key)
	mac.Write(covered)
	return mac.Sum(nil)[:f.icv]
}
