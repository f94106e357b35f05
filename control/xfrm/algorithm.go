package xfrm

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec/suite"
)

// algorithm is one of a state: struct xfrm_algo, xfrm_algo_auth or xfrm_algo_aead.
type algorithm struct {
	name string
	icv  int // bits of the integrity check value that are sent
}

// algorithms are those of a state; the name of one that it lacks is empty.
type algorithms struct{ aead, crypt, auth algorithm }

func (a *algorithms) none() bool { return *a == algorithms{} }

// algorithm reads one. Keys are copied: what they are read from is overwritten soon.
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

// Linux's names.
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

// chooseSuite finds the suite of a state's algorithms and the lengths of its keys.
func (s *state) chooseSuite(algs *algorithms) {
	cipher, known := ciphers[algs.crypt.name]
	auth, sized := hashes[algs.auth.name], algs.auth.icv
	if algs.aead.name != "" {
		cipher, known = aeads[algs.aead.name]
		auth, sized = suite.Combined, algs.aead.icv
	}
	for _, c := range suite.All {
		if known && c.Cipher == cipher && c.Auth == auth && c.ICVLen*8 == sized &&
			c.KeyLen+c.SaltLen == len(s.key) && c.AuthKeyLen == len(s.authKey) {
			s.suite = c.Name
			break
		}
	}
	if s.suite == "" {
		s.refuse("no suite has its algorithms: %s", algs.describe(s))
	}
	// Where Linux is locked down it shows zeroes. To protect packets with them is not to.
	for _, key := range [][]byte{s.key, s.authKey} {
		if len(key) > 0 && len(bytes.Trim(key, "\x00")) == 0 {
			s.refuse("its key is all zeroes: Linux hides it (kernel lockdown in confidentiality mode), or there is none")
		}
	}
}

// fingerprint tells states with the same keys, of the same SPI, from others; it tells
// nothing of the keys.
func (s *state) fingerprint(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, s.id.spi)
	maphash.WriteComparable(&h, s.suite)
	h.Write(s.key)
	h.Write(s.authKey)
	return h.Sum64()
}

// nonces tells states that would use the same nonces from others. They are those with the
// key and the salt in common, whatever else they have; where nonces are not counted up
// from a salt, a state's own.
func (s *state) nonces(seed maphash.Seed) uint64 {
	if c, err := suite.ByName(s.suite); err != nil || c.SaltLen == 0 {
		return s.keys
	}
	return maphash.Bytes(seed, s.key)
}

// describe names the algorithms, with the lengths that matter in bits.
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
		text += fmt.Sprintf("%s with a key of %d bits", x.name, 8*len(x.key))
		if x.icv != 0 {
			text += fmt.Sprintf(" and an ICV of %d", x.icv)
		}
	}
	return text
}
