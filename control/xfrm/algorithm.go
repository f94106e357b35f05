package xfrm

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec/suite"
)

// algorithm is a struct xfrm_algo, xfrm_algo_auth or xfrm_algo_aead.
type algorithm struct {
	name string
	icv  int // length of the transmitted ICV in bits
}

// algorithms holds the algorithms of a state, with an empty name for none.
type algorithms struct{ aead, crypt, auth algorithm }

func (a *algorithms) none() bool { return *a == algorithms{} }

// algorithm parses an attribute. Keys are copied, because the buffer is wiped.
func (s *state) algorithm(a *rtnl.Attrs, algs *algorithms) {
	header := sizeofAlgo
	if a.Kind != attrAlgCrypt {
		header = sizeofAlgoSized
	}
	v, ok := want(a, header)
	if !ok {
		return
	}
	size := (uint64(host.Uint32(v[sizeofAlgoName:])) + 7) / 8
	if uint64(len(v)-header) < size {
		want(a, header+int(size))
		return
	}
	alg := algorithm{name: string(bytes.TrimRight(v[:sizeofAlgoName], "\x00"))}
	if a.Kind != attrAlgCrypt {
		alg.icv = int(host.Uint32(v[sizeofAlgoName+4:]))
	}
	key := &s.key
	switch a.Kind {
	case attrAlgAEAD:
		algs.aead = alg
	case attrAlgCrypt:
		algs.crypt = alg
	case attrAlgAuthTrunc:
		algs.auth, key = alg, &s.authKey
	}
	clear(*key)
	*key = bytes.Clone(v[header : header+int(size)])
}

// Linux algorithm names.
var (
	aeads = map[string]suite.Cipher{
		"rfc4106(gcm(aes))":             suite.GCM,
		"rfc7539esp(chacha20,poly1305)": suite.ChaCha20,
	}
	ciphers = map[string]suite.Cipher{
		"rfc3686(ctr(aes))": suite.CTR,
		"cbc(aes)":          suite.CBC,
		"ecb(cipher_null)":  suite.Null,
	}
	hashes = map[string]suite.Auth{
		"hmac(sha1)":   suite.SHA1,
		"hmac(sha256)": suite.SHA256,
		"hmac(sha512)": suite.SHA512,
	}
)

// chooseSuite finds the suite with the algorithms and key lengths of a state.
func (s *state) chooseSuite(algs *algorithms) {
	cipher, ok := ciphers[algs.crypt.name]
	auth, sized := hashes[algs.auth.name], algs.auth.icv
	if algs.aead.name != "" {
		cipher, ok = aeads[algs.aead.name]
		auth, sized = suite.Combined, algs.aead.icv
	}
	for _, c := range suite.All {
		if ok && c.Cipher == cipher && c.Auth == auth && c.ICVLen*8 == sized &&
			c.KeyLen+c.SaltLen == len(s.key) && c.AuthKeyLen == len(s.authKey) {
			s.suite = c.Name
			break
		}
	}
	if s.suite == "" {
		s.refuse("unsupported algorithms: %s", algs.describe(s))
	}
	// Kernel lockdown replaces keys by zeros, which must not be used.
	for _, key := range [][]byte{s.key, s.authKey} {
		if len(key) > 0 && len(bytes.Trim(key, "\x00")) == 0 {
			s.refuse("the key is all zeros: hidden by kernel lockdown (confidentiality mode), or missing")
		}
	}
}

// fingerprint identifies the keys and the SPI of a state without revealing keys.
func (s *state) fingerprint(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, s.id.spi)
	maphash.WriteComparable(&h, s.suite)
	h.Write(s.key)
	h.Write(s.authKey)
	return h.Sum64()
}

// nonces identifies the nonce sequence of a state: equal for states with the same key and salt.
// Without a salt it is the fingerprint.
func (s *state) nonces(seed maphash.Seed) uint64 {
	if c, err := suite.ByName(s.suite); err != nil || c.SaltLen == 0 {
		return s.keys
	}
	return maphash.Bytes(seed, s.key)
}

// describe names the algorithms with key and ICV lengths in bits.
func (a *algorithms) describe(s *state) string {
	text := ""
	for _, x := range []struct {
		algorithm
		key []byte
	}{{a.aead, s.key}, {a.crypt, s.key}, {a.auth, s.authKey}} {
		if x.name == "" {
			continue
		}
		if text != "" {
			text += " and "
		}
		text += fmt.Sprintf("%s with a %d-bit key", x.name, 8*len(x.key))
		if x.icv != 0 {
			text += fmt.Sprintf(" and a %d-bit ICV", x.icv)
		}
	}
	return text
}
