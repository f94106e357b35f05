// Package suite implements the cipher suites of ESP, under their strongSwan names.
package suite

import (
	"fmt"
	"strings"
)

// Cipher of a suite.
type Cipher uint8

const (
	Null     Cipher = iota // RFC 2410
	CBC                    // AES-CBC, RFC 3602
	CTR                    // AES-CTR, RFC 3686
	GCM                    // AES-GCM, RFC 4106
	ChaCha20               // ChaCha20-Poly1305, RFC 7634
)

// Auth is the integrity algorithm of a suite whose cipher does not authenticate.
type Auth uint8

const (
	Combined Auth = iota // by the cipher
	SHA1                 // HMAC-SHA1-96, RFC 2404
	SHA256               // HMAC-SHA256-128, RFC 4868
	SHA512               // HMAC-SHA512-256, RFC 4868
)

// Suite describes the algorithms of an SA. Lengths are in bytes.
type Suite struct {
	Name       string
	Cipher     Cipher
	Auth       Auth
	KeyLen     int // cipher key, without the salt
	SaltLen    int // behind the key: the implicit part of the nonce
	AuthKeyLen int
	IVLen      int // in front of the payload
	Align      int // of IV, payload and trailer together: at least 4
	ICVLen     int // behind the packet
}

// All lists the supported suites.
var All = []Suite{
	{"aes128gcm16", GCM, Combined, 16, 4, 0, 8, 4, 16},
	{"aes192gcm16", GCM, Combined, 24, 4, 0, 8, 4, 16},
	{"aes256gcm16", GCM, Combined, 32, 4, 0, 8, 4, 16},
	{"chacha20poly1305", ChaCha20, Combined, 32, 4, 0, 8, 4, 16},
	{"aes128ctr-sha1", CTR, SHA1, 16, 4, 20, 8, 4, 12},
	{"aes128ctr-sha256", CTR, SHA256, 16, 4, 32, 8, 4, 16},
	{"aes128-sha1", CBC, SHA1, 16, 0, 20, 16, 16, 12},
	{"aes128-sha256", CBC, SHA256, 16, 0, 32, 16, 16, 16},
	{"aes256-sha256", CBC, SHA256, 32, 0, 32, 16, 16, 16},
	{"aes256-sha512", CBC, SHA512, 32, 0, 64, 16, 16, 32},
	{"null-sha256", Null, SHA256, 0, 0, 32, 0, 4, 16},
}

// ByName returns the suite with a name.
func ByName(name string) (*Suite, error) {
	var names []string
	for i := range All {
		if All[i].Name == name {
			return &All[i], nil
		}
		names = append(names, All[i].Name)
	}
	return nil, fmt.Errorf("suite %q is unknown; supported: %s", name, strings.Join(names, ", "))
}
