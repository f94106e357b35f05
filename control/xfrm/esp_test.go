package xfrm

import (
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// ESP is missing where Linux refuses a good SA, and asking for it adds none. TestLinux runs it under a kernel that has ESP.
func TestESPMissing(t *testing.T) { checkESPMissing(t) }

func checkESPMissing(t *testing.T) (missing []string) {
	t.Helper()
	k := newKernel(t)
	require.NoError(t, k.Do(func() (err error) {
		missing, err = ESPMissing()
		return err
	}))
	if out, err := k.Run("ip", "xfrm", "state"); err != nil || len(out) != 0 {
		t.Errorf("states after the question: %v\n%s", err, out)
	}
	for family, addr := range map[string]string{"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"} {
		_, err := k.Run("ip", "xfrm", "state", "add", "src", addr, "dst", addr, "proto", "esp", "spi", "7", "mode", "tunnel",
			"enc", "cbc(aes)", "0x"+string(slices.Repeat([]byte("17"), 16)), "auth-trunc", "hmac(sha256)", "0x"+string(slices.Repeat([]byte("17"), 32)), "128")
		if slices.Contains(missing, family) != (err != nil) {
			t.Errorf("%s: ESP is missing %v, and a good SA gives: %v", family, missing, err)
		}
	}
	return missing
}
