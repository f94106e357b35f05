package device

import (
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/ipsec/suite"
)

// A key is no longer than what its suite and direction need: a header, round keys, powers or
// two states, round keys for IVs. Of packets of 1408 bytes a GPU's warp works on seven at a
// time if their keys have 34 segments at most, and on eight if they have 18.
func TestDeviceKeysHaveTheNeededParts(t *testing.T) {
	segments := map[string]struct{ seal, open int }{
		"aes128gcm16":      {1 + 11 + 32, 1 + 11 + 32},
		"aes192gcm16":      {1 + 13 + 32, 1 + 13 + 32},
		"aes256gcm16":      {1 + 15 + 32, 1 + 15 + 32},
		"chacha20poly1305": {1 + 2, 1 + 2},
		"aes128ctr-sha1":   {1 + 11 + 2*2, 1 + 11 + 2*2},
		"aes128ctr-sha256": {1 + 11 + 2*2, 1 + 11 + 2*2},
		"aes128-sha1":      {1 + 11 + 2*2 + 11, 1 + 11 + 2*2},
		"aes128-sha256":    {1 + 11 + 2*2 + 11, 1 + 11 + 2*2},
		"aes256-sha256":    {1 + 15 + 2*2 + 11, 1 + 15 + 2*2},
		"aes256-sha512":    {1 + 15 + 2*4 + 11, 1 + 15 + 2*4},
		"null-sha256":      {1 + 2*2, 1 + 2*2},
	}
	most := 0
	for _, a := range associations(t, rand.New(rand.NewPCG(2, 6))) {
		want := segments[a.Name]
		seal, fixed := a.out.Used()
		open, _ := a.in.Used()
		if seal != SegmentBytes*want.seal || open != SegmentBytes*want.open {
			t.Errorf("%s: keys of %d bytes to seal, %d to open; want %d and %d", a.Name, seal, open, SegmentBytes*want.seal, SegmentBytes*want.open)
		}
		if powers := seal - fixed; powers != 0 && (a.Cipher != suite.GCM || powers != SegmentBytes*MaxPowers) {
			t.Errorf("%s: %d bytes of a key are needed by blocks", a.Name, powers)
		}
		most = max(most, seal, open)
	}
	if most != SegmentsBytes {
		t.Errorf("a device has room for keys of %d bytes, the longest has %d", SegmentsBytes, most)
	}
}
