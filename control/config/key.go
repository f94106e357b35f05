package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Key is a secret key. It prints as "(key)", also inside other types. Copies share the bytes, so
// that Zero overwrites all of them. The zero value is no key.
//
// A key from a key file has no other copy. An inline key remains in the text of the configuration
// until the garbage collector frees it and the memory is reused.
type Key struct {
	// A pointer to a pointer, because fmt calls no String of unexported fields, and follows one pointer.
	secret **secret
}

type secret struct {
	bytes  []byte
	digest [sha256.Size]byte // for Equal after Zero
}

// NewKey returns a key that owns b. Zero overwrites b.
func NewKey(b []byte) Key {
	if len(b) == 0 {
		return Key{}
	}
	s := &secret{b, sha256.Sum256(b)}
	return Key{&s}
}

// Bytes returns the bytes of the key, not a copy. After Zero they are zeros.
func (k Key) Bytes() []byte {
	if k.secret == nil {
		return nil
	}
	return (*k.secret).bytes
}

// Len returns the number of bytes.
func (k Key) Len() int { return len(k.Bytes()) }

// Zero overwrites the key and all copies with zeros.
func (k Key) Zero() { clear(k.Bytes()) }

// Equal reports whether two keys had equal bytes at NewKey. It works after Zero.
func (k Key) Equal(other Key) bool { return k.digest() == other.digest() }

func (k Key) digest() [sha256.Size]byte {
	if k.secret == nil {
		return [sha256.Size]byte{}
	}
	return (*k.secret).digest
}

// String returns "(key)" or "(no key)".
func (k Key) String() string {
	if k.secret == nil {
		return "(no key)"
	}
	return "(key)"
}

// parseKey parses hex digits with an optional prefix 0x. Its errors reveal no digits.
func parseKey(text []byte) (Key, error) {
	digits, _ := bytes.CutPrefix(text, []byte("0x"))
	if i := bytes.IndexFunc(digits, notHex); i >= 0 {
		return Key{}, fmt.Errorf("character %d is not a hex digit", len(text)-len(digits)+i+1)
	}
	if len(digits) == 0 {
		return Key{}, errors.New("no hex digits")
	}
	if len(digits)%2 != 0 {
		return Key{}, fmt.Errorf("odd number of hex digits (%d)", len(digits))
	}
	b := make([]byte, len(digits)/2)
	if _, err := hex.Decode(b, digits); err != nil {
		panic("config: decode checked hex digits")
	}
	return NewKey(b), nil
}

func notHex(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) }

// likeKey matches hex digits of a possible key in a wrong place. Numbers are shorter.
var likeKey = regexp.MustCompile(`[0-9a-fA-F]{24,}`)

// hideKeys removes possible keys from the text of an error, which ends up in logs and tickets.
func hideKeys(s string) string { return likeKey.ReplaceAllLiteralString(s, "(a key?)") }
