package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/ipsec/suite"
)

// tunnel is a configuration without mistakes, and its keys.
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
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAssociationsAndPoliciesAreRead(t *testing.T) {
	got, err := Parse("f", []byte(tunnel+`    - direction: in
      src: ::/0
      dst: 2001:db8::/32
      protocol: udp
      sport: 500
      dport: 1000-2000
      action: bypass
    - {direction: out, src: 0.0.0.0/0, dst: 0.0.0.0/0, protocol: 99, action: discard}
`))
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("the key is %x, want %x", got, want)
	}
}

func TestEveryKeyOfAnAssociationIsRead(t *testing.T) {
	got, err := Parse("f", []byte(onePort+`ipsec:
  sas:
    - {name: a, spi: 4294967295, direction: in, mode: transport, src: "::", dst: "2001:db8::2", suite: null-sha256,
       auth_key: `+keyC+`, esn: true, replay_window: 64, encap: {sport: 4501}, df: clear,
       lifetime: {packets: 4, bytes: 5, seconds: 6, soft: {packets: 1, bytes: 2, seconds: 3}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []SA{{Name: "a", SPI: 0xffffffff, Direction: DirectionIn, Mode: SATransport, Src: netip.MustParseAddr("::"), Dst: netip.MustParseAddr("2001:db8::2"),
		Suite: "null-sha256", AuthKey: hexOf(t, keyC), ESN: true, ReplayWindow: 64, Encap: Encap{4501, 4500}, DF: DFClear,
		Lifetime: Lifetime{Soft: Limits{1, 2, 3}, Hard: Limits{4, 5, 6}}}}
	if diff := cmp.Diff(want, got.IPsec.SAs, values); diff != "" {
		t.Error(diff)
	}
}

// Each mistake is put into the tunnel in place of what is right.
func TestIPsecMistakes(t *testing.T) {
	tests := []struct{ name, right, wrong, want string }{
		{"source that does not exist", "  sas:\n", "  source: ike\n  sas:\n", `f:3:11: ipsec.source: there is no "ike"; write config or xfrm`},
		{"associations beside those of Linux", "  sas:\n", "  source: xfrm\n  sas:\n", "f:5:5: ipsec.sas: with source: xfrm they come from Linux; remove these, or write source: config\nf:21:5: ipsec.policies: with source: xfrm they come from Linux; remove these, or write source: config"},
		{"relative directory", "  sas:\n", "  state: keys\n  sas:\n", `f:3:10: ipsec.state: "keys" is not the absolute path of a directory; write one such as /var/lib/warproute`},
		{"fragments of another kind", "  sas:\n", "  fragment: never\n  sas:\n", `f:3:13: ipsec.fragment: there is no "never"; write before or after`},
		{"an interface that is a port", "  sas:\n", "  interface: lan0\n  sas:\n", `f:3:14: ipsec.interface: "lan0" is a port; write another name, such as ipsec0`},
		{"no name of an interface", "  sas:\n", "  interface: ipsec%d\n  sas:\n", `f:3:14: ipsec.interface: "ipsec%d" cannot be the name of an interface; write one such as ipsec0`},
		{"text for a truth value", "  sas:\n", "  mss_clamp: 1360\n  sas:\n", "f:3:14: ipsec.mss_clamp must be true or false, not the number 1360; write one of the two"},

		{"association without a name", "name: branch-out", "mode: tunnel", "f:4:7: ipsec.sas[0] has no name; add one, by which policies, logs and metrics call it"},
		{"name with a space", "name: branch-out", "name: branch out", `f:4:13: ipsec.sas[0].name: "branch out" cannot be a name; write up to 64 letters, digits and, behind the first, any of - _ .`},
		{"name given twice", "name: branch-in", "name: branch-out", `f:11:13: ipsec.sas[1].name: there is already "branch-out" in line 4; give each association a name of its own`},
		{"association without an SPI", "spi: 0x100\n      direction: out", "direction: out", "f:4:7: ipsec.sas[0] has no spi; add the number by which the receiver finds the association, such as 0x100"},
		{"reserved SPI", "spi: 0x100", "spi: 255", "f:5:12: ipsec.sas[0].spi: 0xff: those below 0x100 are reserved; write one from 0x100 to 0xffffffff"},
		{"SPI of 33 bits", "spi: 0x100", "spi: 0x100000000", "f:5:12: ipsec.sas[0].spi: 4294967296 is not a number that fits here; write one such as 0x100"},
		{"negative SPI", "spi: 0x100", "spi: -1", "f:5:12: ipsec.sas[0].spi: -1 is not a number that fits here; write one such as 0x100"},
		{"association without a direction", "      direction: out\n", "", "f:4:7: ipsec.sas[0] has no direction; add one: out or in"},
		{"mode that does not exist", "name: branch-out", "name: branch-out\n      mode: beet", `f:5:13: ipsec.sas[0].mode: there is no "beet"; write tunnel or transport`},
		{"association without an address", "      src: 192.0.2.1\n", "", "f:4:7: ipsec.sas[0] has no src; add an IP address: src is the sender's, dst the receiver's"},
		{"name for an address", "src: 192.0.2.1", "src: gw.example", `f:7:12: ipsec.sas[0].src: "gw.example" is not an IP address; write one such as 192.0.2.1 or 2001:db8::1`},
		{"list for an address", "src: 192.0.2.1", "src: [192.0.2.1]", "f:7:12: ipsec.sas[0].src must be an IP address, not a list; write one such as 192.0.2.1 or 2001:db8::1"},
		{"multicast address", "dst: 192.0.2.2", "dst: 239.0.0.1", "f:8:12: ipsec.sas[0].dst: 239.0.0.1 is not the address of one host; write one such as 192.0.2.1 or 2001:db8::1"},
		{"any address to send to", "dst: 192.0.2.2", "dst: 0.0.0.0", "f:8:12: ipsec.sas[0].dst: 0.0.0.0 is not the address of one host; write one such as 192.0.2.1 or 2001:db8::1"},
		{"any address to send from", "src: 192.0.2.1", "src: 0.0.0.0", "f:7:12: ipsec.sas[0].src: 0.0.0.0 is not the address of one host; write one such as 192.0.2.1 or 2001:db8::1"},
		{"IPv4 in IPv6's form", "src: 192.0.2.1", "src: ::ffff:192.0.2.1", "f:7:12: ipsec.sas[0].src: ::ffff:192.0.2.1 is an IPv4 address in IPv6's form; did you mean 192.0.2.1?"},
		{"addresses of two families", "dst: 192.0.2.2", "dst: 2001:db8::2", "f:8:12: ipsec.sas[0].dst: 2001:db8::2 and the source, 192.0.2.1, are of two families; write two addresses of IPv4, or two of IPv6 (the packets in a tunnel may be of either)"},
		{"SPI and destination of another", "  policies:\n", "    - {name: twin, spi: 0x100, direction: in, src: 192.0.2.7, dst: 192.0.2.1, suite: null-sha256, auth_key: " + keyC + "}\n  policies:\n", `f:19:25: ipsec.sas[2].spi: 0x100 to 192.0.2.1 is already that of "branch-in" in line 12, and a receiver finds only one; write another, here and at the peer`},
		{"suite that does not exist", "suite: aes128gcm16", "suite: 3des-md5", `f:9:14: ipsec.sas[0].suite: there is no "3des-md5"; write aes128gcm16, aes192gcm16, aes256gcm16, chacha20poly1305, aes128ctr-sha1, aes128ctr-sha256, aes128-sha1, aes128-sha256, aes256-sha256, aes256-sha512 or null-sha256`},
		{"association without a suite", "      suite: aes128gcm16\n", "", "f:4:7: ipsec.sas[0] has no suite; add one: aes128gcm16, aes192gcm16, aes256gcm16, chacha20poly1305, aes128ctr-sha1, aes128ctr-sha256, aes128-sha1, aes128-sha256, aes256-sha256, aes256-sha512 or null-sha256"},
		{"association without a key", "      key: " + keyA + "\n", "", "f:4:7: ipsec.sas[0] has no key; add `key_file: FILE`, with 40 hex digits (16 bytes of key, then 4 of salt) in FILE"},
		{"association without a key to authenticate with", "      auth_key: " + keyC + "\n", "", "f:11:7: ipsec.sas[1] has no auth_key; add `auth_key_file: FILE`, with 64 hex digits (32 bytes) in FILE"},
		{"file without a name", "key: " + keyA, `key_file: ""`, "f:10:17: ipsec.sas[0] has no key; add `key_file: FILE`, with 40 hex digits (16 bytes of key, then 4 of salt) in FILE"},
		{"number for a file, which is not also a missing one", "key: " + keyA, "key_file: 5", `f:10:17: ipsec.sas[0].key_file must be text, not the number 5; put it in quotes if it is meant: "5"`},
		{"key without its salt", keyA, keyA[:32], "f:10:12: ipsec.sas[0].key: 32 hex digits are not a key of aes128gcm16; write 40 hex digits (16 bytes of key, then 4 of salt)"},
		{"key that is too short", keyB, keyB[:20], "f:17:12: ipsec.sas[1].key: 18 hex digits are not a key of aes128-sha256; write 32 hex digits (16 bytes)"},
		{"half a byte", keyA, keyA[:39], "f:10:12: ipsec.sas[0].key: 39 hex digits: half a byte is missing, or too many; write it in one line, two hex digits for each byte"},
		{"no digits", keyA, `"0x"`, "f:10:12: ipsec.sas[0].key: there are no hex digits; write it in one line, two hex digits for each byte"},
		{"digits that are not", keyA, "00112233445566778899aabbccddeefg01020304", "f:10:12: ipsec.sas[0].key: character 32 is not a hex digit; write it in one line, two hex digits for each byte"},
		{"key in a list", keyA, "[" + keyA + "]", "f:10:12: ipsec.sas[0].key must be hex digits; write it in one line, two hex digits for each byte"},
		{"key in a block", keyA, "|\n        " + keyA, "f:10:12: ipsec.sas[0].key must be hex digits; write it in one line, two hex digits for each byte"},
		{"key by two names", "key: " + keyA, "key: " + keyA + "\n      key_file: x", "f:11:17: ipsec.sas[0].key_file: there is key as well; leave one of the two out"},
		{"key to authenticate with where there is another", "key: " + keyA, "key: " + keyA + "\n      auth_key: " + keyC, "f:11:17: ipsec.sas[0].auth_key: aes128gcm16 takes none; remove it, or choose another suite"},
		{"key where nothing is encrypted", "suite: aes128-sha256", "suite: null-sha256", "f:17:12: ipsec.sas[1].key: null-sha256 takes none; remove it, or choose another suite"},
		{"key of another association", "suite: aes128-sha256\n      key: " + keyB + "\n      auth_key: " + keyC, "suite: aes128gcm16\n      key: 0x" + keyA, `f:17:12: ipsec.sas[1].key: it is also the key of "branch-out" in line 4: with aes128gcm16 both would use the same nonces, which gives away what they encrypt; draw a key for each, also for the two directions of a tunnel`},
		{"window that is too large", "name: branch-in", "name: branch-in\n      replay_window: 4097", "f:12:22: ipsec.sas[1].replay_window: 4097 is out of range; write how many packets may overtake one, from 64 to 4096, or 0 to accept repeated ones"},
		{"negative window", "name: branch-in", "name: branch-in\n      replay_window: -1", "f:12:22: ipsec.sas[1].replay_window: -1 is out of range; write how many packets may overtake one, from 64 to 4096, or 0 to accept repeated ones"},
		{"extended numbers without a window", "name: branch-in", "name: branch-in\n      esn: true\n      replay_window: 0", "f:13:22: ipsec.sas[1].replay_window: extended sequence numbers need one; write 64 to 4096, or esn: false"},
		{"encapsulation from no port", "name: branch-out", "name: branch-out\n      encap: {sport: 0}", "f:5:15: ipsec.sas[0].encap: from port 0 to port 4500; write two ports from 1 to 65535, usually 4500"},
		{"encapsulation from no port to none", "name: branch-out", "name: branch-out\n      encap: {sport: 0, dport: 0}", "f:5:15: ipsec.sas[0].encap: from port 0 to port 0; write two ports from 1 to 65535, usually 4500"},
		{"encapsulation to a port where nobody looks", "name: branch-in", "name: branch-in\n      encap: {dport: 4501}", "f:12:15: ipsec.sas[1].encap: to port 4501: ESP in UDP is received at port 4500 alone; write dport: 4500, and have the peer send there"},
		{"port of 17 bits", "name: branch-out", "name: branch-out\n      encap: {dport: 65536}", "f:5:22: ipsec.sas[0].encap.dport: 65536 is not a number that fits here; write one such as 4500"},
		{"bit that is neither set nor clear", "name: branch-out", "name: branch-out\n      df: maybe", `f:5:11: ipsec.sas[0].df: there is no "maybe"; write copy, set or clear`},
		{"soft beyond hard", "name: branch-out", "name: branch-out\n      lifetime: {bytes: 5, soft: {bytes: 6}}", "f:5:42: ipsec.sas[0].lifetime.soft.bytes: 6 is beyond the end of the lifetime, 5; write less, so that there is time to replace the association"},
		{"lifetime of ages", "name: branch-out", "name: branch-out\n      lifetime: {seconds: 4294967297}", "f:5:27: ipsec.sas[0].lifetime.seconds: 4294967297 is out of range; write a number up to 4294967296, or 0 for no limit"},
		{"soft lifetime of ages", "name: branch-out", "name: branch-out\n      lifetime: {soft: {seconds: 4294967297}}", "f:5:34: ipsec.sas[0].lifetime.soft.seconds: 4294967297 is out of range; write a number up to 4294967296, or 0 for no limit"},
		{"lifetime as a duration", "name: branch-out", "name: branch-out\n      lifetime: {seconds: 1h}", `f:5:27: ipsec.sas[0].lifetime.seconds must be a whole number, not the text "1h"; write one, as in 0`},

		{"policy without a direction", "direction: out, src: 10.7.0.0/16, ", "src: 10.7.0.0/16, ", "f:20:8: ipsec.policies[0] has no direction; add one: out or in"},
		{"policy without an action", "action: protect, sa: branch-out", "sport: any", "f:20:8: ipsec.policies[0] has no action; add one: protect, bypass or discard"},
		{"policy without a prefix", "src: 10.7.0.0/16, ", "", "f:20:8: ipsec.policies[0] has no src; add a prefix, 0.0.0.0/0 or ::/0 for any"},
		{"bits beyond a prefix", "10.7.0.0/16", "10.7.0.1/16", "f:20:29: ipsec.policies[0].src: 10.7.0.1/16 has address bits beyond its length; did you mean 10.7.0.0/16, or 10.7.0.1/32?"},
		{"address for a prefix", "10.7.0.0/16", "10.7.0.1", `f:20:29: ipsec.policies[0].src: "10.7.0.1" is not an IP prefix; did you mean 10.7.0.1/32?`},
		{"word for a prefix", "10.7.0.0/16", "any", `f:20:29: ipsec.policies[0].src: "any" is not an IP prefix; write one such as 10.7.0.0/16 or 2001:db8::/32; any is 0.0.0.0/0 or ::/0`},
		{"prefixes of two families", "10.7.0.0/16", "2001:db8::/32", "f:20:49: ipsec.policies[0].dst: 10.8.0.0/16 and the source, 2001:db8::/32, are of two families; write two prefixes of IPv4, or two of IPv6"},
		{"protocol that does not exist", "action: protect", "protocol: tpc, action: protect", `f:20:70: ipsec.policies[0].protocol: there is no "tpc"; write a number from 1 to 255, any, icmp, tcp, udp, dccp, gre, esp, ah, icmpv6, ospf, sctp, mobility or udplite`},
		{"protocol of nine bits", "action: protect", "protocol: 256, action: protect", `f:20:70: ipsec.policies[0].protocol: there is no "256"; write a number from 1 to 255, any, icmp, tcp, udp, dccp, gre, esp, ah, icmpv6, ospf, sctp, mobility or udplite`},
		{"ICMP of the other family", "action: protect", "protocol: icmpv6, action: protect", "f:20:70: ipsec.policies[0].protocol: icmpv6 is IPv6's; write icmp"},
		{"ports of no protocol", "action: protect", "dport: 80, action: protect", "f:20:67: ipsec.policies[0].dport: ports are of protocols that have some; add `protocol: tcp` or another such, or write any"},
		{"ports of a protocol without", "action: protect", "protocol: esp, sport: 80, action: protect", "f:20:82: ipsec.policies[0].sport: ports are of protocols that have some; add `protocol: tcp` or another such, or write any"},
		{"range that ends before it begins", "action: protect", "protocol: tcp, dport: 9-8, action: protect", "f:20:82: ipsec.policies[0].dport: 9-8 ends before it begins; did you mean 8-9?"},
		{"port that does not exist", "action: protect", "protocol: tcp, dport: http, action: protect", `f:20:82: ipsec.policies[0].dport: "http" is neither a port nor a range of ports; write one such as 80, a range such as 1000-2000, or any`},
		{"list of ports", "action: protect", "protocol: tcp, dport: [80, 443], action: protect", "f:20:82: ipsec.policies[0].dport must be a port or a range of ports, not a list; write one such as 80, a range such as 1000-2000, or any"},
		{"protection by nothing", ", sa: branch-out", "", "f:20:8: ipsec.policies[0] has no sa; add the name of the association that is to protect its packets"},
		{"protection by a misspelt association", "sa: branch-out", "sa: branch-uot", `f:20:81: ipsec.policies[0].sa: there is no association "branch-uot"; did you mean "branch-out"?`},
		{"protection by an unknown association", "sa: branch-out", "sa: head-office", `f:20:81: ipsec.policies[0].sa: there is no association "head-office"; name one of direction: out: branch-out`},
		{"protection by an association of the other direction", "sa: branch-out", "sa: branch-in", `f:20:81: ipsec.policies[0].sa: "branch-in" is for direction: in, the policy for out; name one of direction: out: branch-out`},
		{"protection of the other family in transport mode", "src: 192.0.2.1\n      dst: 192.0.2.2", "mode: transport\n      src: 2001:db8::1\n      dst: 2001:db8::2", `f:21:81: ipsec.policies[0].sa: in transport mode "branch-out" protects packets to 2001:db8::2, and the policy is of the other family; change its prefixes, or have a tunnel`},
		{"association for a bypass", "action: protect", "action: bypass", "f:20:80: ipsec.policies[0].sa: an association is of no use to action: bypass; remove it, or write action: protect"},
		{"misspelt name, of which a policy has the right one", "name: branch-out", "nam: branch-out", `f:4:7: unknown key "nam" in ipsec.sas[0]; did you mean "name"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tunnel, tt.right) {
				t.Fatalf("the tunnel has no %q", tt.right)
			}
			_, err := Parse("f", []byte(strings.Replace(tunnel, tt.right, tt.wrong, 1)))
			if err == nil {
				t.Fatalf("accepted, want error\n%s", tt.want)
			}
			if err.Error() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Mend == "" {
				t.Errorf("no *Error with a mend in %#v", err)
			}
		})
	}
}

func TestKeysHaveTheLengthOfTheirSuite(t *testing.T) {
	for _, s := range suite.All {
		for _, tt := range []struct {
			name      string
			key, auth int // bytes too many
			want      string
		}{
			{name: "right"},
			{"key too long", 1, 0, ".key: "},
			{"key too short", -1, 0, ".key: "},
			{"auth key too long", 0, 1, ".auth_key: "},
			{"auth key too short", 0, -1, ".auth_key: "},
		} {
			key, auth := s.KeyLen+s.SaltLen+tt.key, s.AuthKeyLen+tt.auth
			text := onePort + "ipsec:\n  sas:\n    - {name: a, spi: 256, direction: out, src: \"::1\", dst: \"::2\", suite: " + s.Name
			if key > 0 {
				text += ", key: " + strings.Repeat("a1", key)
			}
			if auth > 0 {
				text += ", auth_key: " + strings.Repeat("b2", auth)
			}
			_, err := Parse("f", []byte(text+"}\n"))
			switch {
			case key < 0 || auth < 0: // there is no such
			case tt.want == "" && err != nil:
				t.Errorf("%s, %s: %v", s.Name, tt.name, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s, %s: got %v, want an error about %s", s.Name, tt.name, err, tt.want)
			}
		}
	}
}

func TestOneAssociationMayBeSentAndReceivedHere(t *testing.T) {
	text := onePort + "ipsec:\n  sas:\n"
	for _, direction := range []string{"out", "in"} {
		text += fmt.Sprintf("    - {name: %s, direction: %s, spi: 256, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key: %s}\n", direction, direction, keyA)
	}
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("f", []byte(strings.Replace(text, "spi: 256", "spi: 257", 1))); err == nil {
		t.Error("accepted one key for two associations")
	}
}

// The sample in full.yaml is made of lines that begin with # and are not prose, which
// has a space behind it.
func TestSampleOfATunnelHasTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../configs/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^( *)#([^ ]|  )`).ReplaceAll(text, []byte("$1$2"))
	got, err := Parse("full.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Parse("f", []byte(onePort+`ipsec:
  sas:
    - {name: branch-out, spi: 0x9c41f0d7, direction: out, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key_file: keys/branch-out.key}
    - {name: branch-in, spi: 0x3be8527a, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: aes128gcm16, key_file: keys/branch-in.key}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.IPsec.SAs, got.IPsec.SAs, values); diff != "" {
		t.Errorf("the sample differs from the defaults (-default +sample):\n%s", diff)
	}
	if len(got.IPsec.Policies) != 3 {
		t.Errorf("%d policies", len(got.IPsec.Policies))
	}
}

func TestEqualAssociations(t *testing.T) {
	parse := func(text string) []SA {
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.IPsec.SAs
	}
	old := parse(tunnel)
	(&IPsec{SAs: old}).Zero()
	for i, a := range parse(tunnel) {
		a.KeyFile = "elsewhere"
		if !old[i].Equal(&a) || !a.Equal(&old[i]) {
			t.Errorf("%s differs from itself, of which the keys are overwritten", a.Name)
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
