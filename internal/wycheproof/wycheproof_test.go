package wycheproof

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Other packages test all packets; this test pins their number.
func TestPacketCountIsKnown(t *testing.T) {
	type count struct{ all, invalid, exact int }
	got := map[string]count{}
	all, err := Packets()
	require.NoError(t, err)
	for _, p := range all {
		c := got[p.Suite]
		c.all++
		if !p.Valid {
			c.invalid++
		}
		if p.Exact {
			c.exact++
		}
		got[p.Suite] = c
	}
	want := map[string]count{
		"aes128-sha1":      {127, 40, 73},
		"aes128-sha256":    {127, 54, 73},
		"aes128ctr-sha1":   {100, 40, 73},
		"aes128ctr-sha256": {100, 54, 73},
		"aes128gcm16":      {67, 27, 2},
		"aes192gcm16":      {64, 27, 1},
		"aes256-sha256":    {127, 54, 73},
		"aes256-sha512":    {127, 54, 73},
		"aes256gcm16":      {66, 27, 1},
		"chacha20poly1305": {316, 60, 14},
		"null-sha256":      {62, 54, 35},
	}
	for suite, w := range want {
		if got[suite] != w {
			t.Errorf("%s: %+v, want %+v", suite, got[suite], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d suites, want %d: %+v", len(got), len(want), got)
	}
}
