package config

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/internal/require"
)

// tunnel is a valid configuration; keyA, keyB and keyC are its keys.
const (
	tunnel = `ports: [{interface: lan0}]
ipsec:
  sas:
    - name: branch-out
      spi: 0x100
      direction: out
      src: 192.0.2.1
      dst: 192.0.2.2
      suite: aes128gcm16
      key: ` + keyA + `
    - name: branch-in
      spi: 0x100
      direction: in
      src: 192.0.2.2
      dst: 192.0.2.1
      suite: aes128-sha256
      key: ` + keyB + `
      auth_key: ` + keyC + `
  policies:
    - {direction: out, src: 10.7.0.0/16, dst: 10.8.0.0/16, action: protect, sa: branch-out}
    - {direction: in, src: 10.8.0.0/16, dst: 10.7.0.0/16, action: protect, sa: branch-in}
`
	keyA = "00112233445566778899aabbccddeeff01020304"
	keyB = "0x8000112233445566778899AABBCCDDEE"
	keyC = "90ffeeddccbbaa99887766554433221100ffeeddccbbaa998877665544332211"
)

func hexOf(t *testing.T, s string) Key {
	t.Helper()
	k, err := parseKey([]byte(s))
	require.NoError(t, err)
	return k
}

func TestSAsAndPoliciesAreRead(t *testing.T) {
	got, err := Parse("f", []byte(tunnel+`    - direction: in
      src: ::/0
      dst: 2001:db8::/32
      protocol: udp
      sport: 500
      dport: 1000-2000
      action: bypass
    - {direction: out, src: 0.0.0.0/0, dst: 0.0.0.0/0, protocol: 99, action: discard}
`))
	require.NoError(t, err)
	want := Default("lan0")
	want.IPsec.SAs = []SA{
		{Name: "branch-out", SPI: 0x100, Direction: DirectionOut, Mode: SATunnel, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
			Suite: "aes128gcm16", Key: hexOf(t, keyA), ReplayWindow: 1024, DF: DFCopy},
		{Name: "branch-in", SPI: 0x100, Direction: DirectionIn, Mode: SATunnel, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"),
			Suite: "aes128-sha256", Key: hexOf(t, keyB), AuthKey: hexOf(t, keyC), ReplayWindow: 1024, DF: DFCopy},
	}
	a, b := netip.MustParsePrefix("10.7.0.0/16"), netip.MustParsePrefix("10.8.0.0/16")
	any4 := netip.MustParsePrefix("0.0.0.0/0")
	want.IPsec.Policies = []Policy{
		{DirectionOut, a, b, 0, AnyPort, AnyPort, ActionProtect, "branch-out"},
		{DirectionIn, b, a, 0, AnyPort, AnyPort, ActionProtect, "branch-in"},
		{DirectionIn, netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/32"), 17, PortRange{500, 500}, PortRange{1000, 2000}, ActionBypass, ""},
		{DirectionOut, any4, any4, 99, AnyPort, AnyPort, ActionDiscard, ""},
	}
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Error(diff)
	}
	if got, want := got.IPsec.SAs[0].Key.Bytes(), []byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 1, 2, 3, 4}; string(got) != string(want) {
		t.Errorf("key %x, want %x", got, want)
	}
}

func TestEveryKeyOfAnSAIsRead(t *testing.T) {
	got, err := Parse("f", []byte(onePort+`ipsec:
  sas:
    - {name: a, spi: 4294967295, direction: in, mode: transport, src: "::", dst: "2001:db8::2", suite: null-sha256,
       auth_key: `+keyC+`, esn: true, replay_window: 64, encap: {sport: 4501}, df: clear,
       lifetime: {packets: 4, bytes: 5, seconds: 6, soft: {packets: 1, bytes: 2, seconds: 3}}}
`))
	require.NoError(t, err)
	want := []SA{{Name: "a", SPI: 0xffffffff, Direction: DirectionIn, Mode: SATransport, Src: netip.MustParseAddr("::"), Dst: netip.MustParseAddr("2001:db8::2"),
		Suite: "null-sha256", AuthKey: hexOf(t, keyC), ESN: true, ReplayWindow: 64, Encap: Encap{4501, 4500}, DF: DFClear,
		Lifetime: Lifetime{Soft: Limits{1, 2, 3}, Hard: Limits{4, 5, 6}}}}
	if diff := cmp.Diff(want, got.IPsec.SAs, values); diff != "" {
		t.Error(diff)
	}
}

func TestOneSACanBeOutboundAndInbound(t *testing.T) {
	text := onePort + "ipsec:\n  sas:\n"
	for _, direction := range []string{"out", "in"} {
		text += fmt.Sprintf("    - {name: %s, direction: %s, spi: 256, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key: %s}\n", direction, direction, keyA)
	}
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("f", []byte(strings.Replace(text, "spi: 256", "spi: 257", 1))); err == nil {
		t.Error("accepted one key for two SAs")
	}
}

// The sample in full.yaml is commented out. Comments have one space after the #; the sample has none,
// or indentation.
func TestTunnelSampleHasTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../configs/full.yaml")
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^( *)#([^ ]|  )`).ReplaceAll(text, []byte("$1$2"))
	got, err := Parse("full.yaml", text)
	require.NoError(t, err)
	out, err := Parse("f", []byte(onePort+`ipsec:
  sas:
    - {name: branch-out, spi: 0x9c41f0d7, direction: out, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key_file: keys/branch-out.key}
    - {name: branch-in, spi: 0x3be8527a, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: aes128gcm16, key_file: keys/branch-in.key}
`))
	require.NoError(t, err)
	if diff := cmp.Diff(out.IPsec.SAs, got.IPsec.SAs, values); diff != "" {
		t.Errorf("the sample differs from the defaults (-default +sample):\n%s", diff)
	}
	if len(got.IPsec.Policies) != 3 {
		t.Errorf("%d policies", len(got.IPsec.Policies))
	}
}

func TestSAEqualComparesAllButKeyFiles(t *testing.T) {
	parse := func(text string) []SA {
		c, err := Parse("f", []byte(text))
		require.NoError(t, err)
		return c.IPsec.SAs
	}
	old := parse(tunnel)
	(&IPsec{SAs: old}).Zero()
	for i, a := range parse(tunnel) {
		a.KeyFile = "elsewhere"
		if !old[i].Equal(&a) || !a.Equal(&old[i]) {
			t.Errorf("%s differs from a copy with overwritten keys", a.Name)
		}
	}
	for _, change := range []func(a *SA){
		func(a *SA) { a.Name = "b" },
		func(a *SA) { a.SPI++ },
		func(a *SA) { a.Src = a.Dst },
		func(a *SA) { a.Key = NewKey([]byte("another")) },
		func(a *SA) { a.Key = Key{} },
		func(a *SA) { a.AuthKey = NewKey([]byte("another")) },
		func(a *SA) { a.ESN = true },
		func(a *SA) { a.Encap.DstPort = 4500 },
		func(a *SA) { a.Lifetime.Soft.Packets = 1 },
	} {
		a := old[1]
		change(&a)
		if a.Equal(&old[1]) || old[1].Equal(&a) {
			t.Errorf("%+v equals %+v", a, old[1])
		}
	}
}
