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

// Key is a secret. It prints as "(key)", by itself and within whatever holds it.
// Copies share the bytes, so that Zero overwrites them for all. The zero Key is none.
//
// A key from a file of its own is nowhere else. One from the configuration is also in
// the text of that, which the collector frees when it likes.
type Key struct {
	// fmt calls no String of unexported fields, and follows one pointer at times, but never two.
	secret **secret
}

type secret struct {
	bytes  []byte
	digest [sha256.Size]byte // by which keys still compare when their bytes are gone
}

// NewKey takes the bytes of a key: Zero overwrites them.
func NewKey(b []byte) Key {
	if len(b) == 0 {
		return Key{}
	}
	s := &secret{b, sha256.Sum256(b)}
	return Key{&s}
}

// Bytes returns the key itself, not a copy: zeros after Zero.
func (k Key) Bytes() []byte {
	if k.secret == nil {
		return nil
	}
	return (*k.secret).bytes
}

// Len returns how many bytes there are.
func (k Key) Len() int { return len(k.Bytes()) }

// Zero overwrites the key, in all copies.
func (k Key) Zero() { clear(k.Bytes()) }

// Equal reports whether two keys were the same when they were made, also after Zero.
func (k Key) Equal(other Key) bool { return k.digest() == other.digest() }

func (k Key) digest() [sha256.Size]byte {
	if k.secret == nil {
		return [sha256.Size]byte{}
	}
	return (*k.secret).digest
}

// String tells nothing but whether there is a key.
func (k Key) String() string {
	if k.secret == nil {
		return "(no key)"
	}
	return "(key)"
}

// parseKey reads hex digits, with or without 0x before them. Its errors have none
// of them.
func parseKey(text []byte) (Key, error) {
	digits, _ := bytes.CutPrefix(text, []byte("0x"))
	if i := bytes.IndexFunc(digits, notHex); i >= 0 {
		return Key{}, fmt.Errorf("character %d is not a hex digit", len(text)-len(digits)+i+1)
	}
	if len(digits) == 0 {
		return Key{}, errors.New("there are no hex digits")
	}
	if len(digits)%2 != 0 {
		return Key{}, fmt.Errorf("%d hex digits: half a byte is missing, or too many", len(digits))
	}
	b := make([]byte, len(digits)/2)
	if _, err := hex.Decode(b, digits); err != nil {
		panic("config: hex digits that are none") // all were looked at
	}
	return NewKey(b), nil
}

func notHex(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) }

// likeKey matches digits that may be a key, or a part of one, which somebody wrote
// in a wrong place. Numbers are shorter.
var likeKey = regexp.MustCompile(`[0-9a-fA-F]{24,}`)

// hideKeys makes a text fit for an error: mistakes end up in logs and in tickets.
func hideKeys(s string) string { return likeKey.ReplaceAllLiteralString(s, "(a key?)") }
