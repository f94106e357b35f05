package suite

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/wycheproof"
)

// HMACs with keys of up to a block, and messages and tags of any length.
func TestHMACWycheproof(t *testing.T) {
	for _, v := range []struct {
		file string
		hash func() hash.Hash
		want int
	}{{wycheproof.HMACSHA1, sha1.New, 164}, {wycheproof.HMACSHA256, sha256.New, 168}, {wycheproof.HMACSHA512, sha512.New, 174}} {
		all, err := wycheproof.Read(v.file)
		require.NoError(t, err)
		n := 0
		for _, c := range all {
			if len(c.Key) > v.hash().BlockSize() {
				continue
			}
			n++
			m := newMAC(v.hash, c.Key)
			if got := m.sum(c.Msg, 0, false)[:len(c.Tag)]; (string(got) == string(c.Tag)) != c.Valid {
				t.Errorf("%s: %x for %x, valid: %v", c.Name, got, c.Tag, c.Valid)
			}
		}
		if n != v.want {
			t.Errorf("%s: %d vectors, want %d", v.file, n, v.want)
		}
	}
}
