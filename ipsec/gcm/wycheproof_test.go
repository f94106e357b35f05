package gcm

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/wycheproof"
)

// All vectors with nonces of 12 bytes and up to 16 bytes of associated data, which is what a Key takes:
// texts of any length, and tags that are wrong.
func TestWycheproof(t *testing.T) {
	if !here(t) {
		return
	}
	all, err := wycheproof.Read(wycheproof.GCM)
	require.NoError(t, err)
	n, invalid := 0, 0
	for _, v := range all {
		if len(v.IV) != NonceLen || len(v.AAD) > MaxAAD {
			continue
		}
		n++
		k, err := NewKey(v.Key)
		require.NoError(t, err)
		p, tag := bytes.Clone(v.CT), [TagLen]byte(v.Tag)
		if ok := k.Open(p, &tag, first(v.IV), block(v.AAD), len(v.AAD)); ok != v.Valid {
			t.Errorf("%s: accepted: %v, want %v", v.Name, ok, v.Valid)
		}
		if !v.Valid {
			invalid++
			if !bytes.Equal(p, make([]byte, len(p))) {
				t.Errorf("%s: it is refused, and %x is left", v.Name, p)
			}
			continue
		}
		if !bytes.Equal(p, v.Msg) {
			t.Errorf("%s: opened\n got  %x\n want %x", v.Name, p, []byte(v.Msg))
		}
		k.Seal(p, &tag, first(v.IV), block(v.AAD), len(v.AAD))
		if !bytes.Equal(p, v.CT) || !bytes.Equal(tag[:], v.Tag) {
			t.Errorf("%s: sealed\n got  %x %x\n want %x %x", v.Name, p, tag, []byte(v.CT), []byte(v.Tag))
		}
	}
	if n != 158 || invalid != 81 {
		t.Errorf("%d vectors of which %d are invalid, want 158 and 81", n, invalid)
	}
}
