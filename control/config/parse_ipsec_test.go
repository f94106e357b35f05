package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/ipsec/suite"
)

// Each case replaces a valid part of tunnel by an invalid one.
func TestParseReportsIPsecMistakes(t *testing.T) {
	tests := []struct{ name, right, wrong, want string }{
		{"unknown source", "  sas:\n", "  source: ike\n  sas:\n", `f:3:11: ipsec.source: unknown value "ike"; write config or xfrm`},
		{"SAs and policies with source: xfrm", "  sas:\n", "  source: xfrm\n  sas:\n", "f:5:5: ipsec.sas: not allowed with source: xfrm, which reads them from the kernel; remove the list, or write source: config\nf:21:5: ipsec.policies: not allowed with source: xfrm, which reads them from the kernel; remove the list, or write source: config"},
		{"relative directory", "  sas:\n", "  state: keys\n  sas:\n", `f:3:10: ipsec.state: "keys" is not the absolute path of a directory; write one such as /var/lib/warproute`},
		{"unknown fragment mode", "  sas:\n", "  fragment: never\n  sas:\n", `f:3:13: ipsec.fragment: unknown value "never"; write before or after`},
		{"interface that is a port", "  sas:\n", "  interface: lan0\n  sas:\n", `f:3:14: ipsec.interface: "lan0" is a port; write another name, such as ipsec0`},
		{"invalid interface name", "  sas:\n", "  interface: ipsec%d\n  sas:\n", `f:3:14: ipsec.interface: "ipsec%d" is not a valid interface name; write a name such as ipsec0`},
		{"number for a boolean", "  sas:\n", "  mss_clamp: 1360\n  sas:\n", "f:3:14: ipsec.mss_clamp must be a boolean, not the number 1360; write true or false"},

		{"SA without a name", "name: branch-out", "mode: tunnel", "f:4:7: ipsec.sas[0] has no name; add a name for policies, logs and metrics"},
		{"name with a space", "name: branch-out", "name: branch out", `f:4:13: ipsec.sas[0].name: "branch out" is not a valid name; write up to 64 letters, digits and, after the first, any of - _ .`},
		{"duplicate name", "name: branch-in", "name: branch-out", `f:11:13: ipsec.sas[1].name: duplicate of "branch-out" in line 4; choose a unique name for each SA`},
		{"SA without an SPI", "spi: 0x100\n      direction: out", "direction: out", "f:4:7: ipsec.sas[0] has no spi; add the SPI at the receiver, such as 0x100"},
		{"reserved SPI", "spi: 0x100", "spi: 255", "f:5:12: ipsec.sas[0].spi: 0xff is reserved; write an SPI from 0x100 to 0xffffffff"},
		{"SPI over 32 bits", "spi: 0x100", "spi: 0x100000000", "f:5:12: ipsec.sas[0].spi: 4294967296 is out of range; write an integer such as 0x100"},
		{"negative SPI", "spi: 0x100", "spi: -1", "f:5:12: ipsec.sas[0].spi: -1 is out of range; write an integer such as 0x100"},
		{"SA without a direction", "      direction: out\n", "", "f:4:7: ipsec.sas[0] has no direction; add one: out or in"},
		{"unknown mode", "name: branch-out", "name: branch-out\n      mode: beet", `f:5:13: ipsec.sas[0].mode: unknown value "beet"; write tunnel or transport`},
		{"SA without an address", "      src: 192.0.2.1\n", "", "f:4:7: ipsec.sas[0] has no src; add an IP address: src of the sender, dst of the receiver"},
		{"name for an address", "src: 192.0.2.1", "src: gw.example", `f:7:12: ipsec.sas[0].src: "gw.example" is not an IP address; write one such as 192.0.2.1 or 2001:db8::1`},
		{"list for an address", "src: 192.0.2.1", "src: [192.0.2.1]", "f:7:12: ipsec.sas[0].src must be an IP address, not a list; write one such as 192.0.2.1 or 2001:db8::1"},
		{"multicast address", "dst: 192.0.2.2", "dst: 239.0.0.1", "f:8:12: ipsec.sas[0].dst: 239.0.0.1 is not a unicast address without a zone; write one such as 192.0.2.1 or 2001:db8::1"},
		{"unspecified destination", "dst: 192.0.2.2", "dst: 0.0.0.0", "f:8:12: ipsec.sas[0].dst: 0.0.0.0 is not a unicast address without a zone; write one such as 192.0.2.1 or 2001:db8::1"},
		{"unspecified source", "src: 192.0.2.1", "src: 0.0.0.0", "f:7:12: ipsec.sas[0].src: 0.0.0.0 is not a unicast address without a zone; write one such as 192.0.2.1 or 2001:db8::1"},
		{"IPv4-mapped address", "src: 192.0.2.1", "src: ::ffff:192.0.2.1", "f:7:12: ipsec.sas[0].src: ::ffff:192.0.2.1 is an IPv4-mapped IPv6 address; did you mean 192.0.2.1?"},
		{"addresses of different families", "dst: 192.0.2.2", "dst: 2001:db8::2", "f:8:12: ipsec.sas[0].dst: address families of 2001:db8::2 and the source 192.0.2.1 differ; write two IPv4 or two IPv6 addresses (inner packets can be of either family)"},
		{"duplicate SPI and destination", "  policies:\n", "    - {name: twin, spi: 0x100, direction: in, src: 192.0.2.7, dst: 192.0.2.1, suite: null-sha256, auth_key: " + keyC + "}\n  policies:\n", `f:19:25: ipsec.sas[2].spi: SPI 0x100 to 192.0.2.1 is already in use by "branch-in" in line 12; write another SPI, here and at the peer`},
		{"unknown suite", "suite: aes128gcm16", "suite: 3des-md5", `f:9:14: ipsec.sas[0].suite: unknown value "3des-md5"; write aes128gcm16, aes192gcm16, aes256gcm16, chacha20poly1305, aes128ctr-sha1, aes128ctr-sha256, aes128-sha1, aes128-sha256, aes256-sha256, aes256-sha512 or null-sha256`},
		{"SA without a suite", "      suite: aes128gcm16\n", "", "f:4:7: ipsec.sas[0] has no suite; add one: aes128gcm16, aes192gcm16, aes256gcm16, chacha20poly1305, aes128ctr-sha1, aes128ctr-sha256, aes128-sha1, aes128-sha256, aes256-sha256, aes256-sha512 or null-sha256"},
		{"SA without a key", "      key: " + keyA + "\n", "", "f:4:7: ipsec.sas[0] has no key; add `key_file: FILE`, with 40 hex digits (16 bytes of key, then 4 of salt) in FILE"},
		{"SA without an authentication key", "      auth_key: " + keyC + "\n", "", "f:11:7: ipsec.sas[1] has no auth_key; add `auth_key_file: FILE`, with 64 hex digits (32 bytes) in FILE"},
		{"empty path of a key file", "key: " + keyA, `key_file: ""`, "f:10:17: ipsec.sas[0] has no key; add `key_file: FILE`, with 40 hex digits (16 bytes of key, then 4 of salt) in FILE"},
		{"number for a key file is reported once", "key: " + keyA, "key_file: 5", `f:10:17: ipsec.sas[0].key_file must be a string, not the number 5; quote the value: "5"`},
		{"key without its salt", keyA, keyA[:32], "f:10:12: ipsec.sas[0].key: 32 hex digits are the wrong length for aes128gcm16; write 40 hex digits (16 bytes of key, then 4 of salt)"},
		{"key too short", keyB, keyB[:20], "f:17:12: ipsec.sas[1].key: 18 hex digits are the wrong length for aes128-sha256; write 32 hex digits (16 bytes)"},
		{"odd number of digits", keyA, keyA[:39], "f:10:12: ipsec.sas[0].key: odd number of hex digits (39); write it on one line, two hex digits per byte"},
		{"no digits", keyA, `"0x"`, "f:10:12: ipsec.sas[0].key: no hex digits; write it on one line, two hex digits per byte"},
		{"invalid digit", keyA, "00112233445566778899aabbccddeefg01020304", "f:10:12: ipsec.sas[0].key: character 32 is not a hex digit; write it on one line, two hex digits per byte"},
		{"key in a list", keyA, "[" + keyA + "]", "f:10:12: ipsec.sas[0].key must be hex digits; write it on one line, two hex digits per byte"},
		{"key in a block", keyA, "|\n        " + keyA, "f:10:12: ipsec.sas[0].key must be hex digits; write it on one line, two hex digits per byte"},
		{"key and key file", "key: " + keyA, "key: " + keyA + "\n      key_file: x", "f:11:17: ipsec.sas[0].key_file: key is set too; remove one of the two"},
		{"authentication key of an AEAD suite", "key: " + keyA, "key: " + keyA + "\n      auth_key: " + keyC, "f:11:17: ipsec.sas[0].auth_key: aes128gcm16 takes no auth_key; remove it, or choose another suite"},
		{"key of the null cipher", "suite: aes128-sha256", "suite: null-sha256", "f:17:12: ipsec.sas[1].key: null-sha256 takes no key; remove it, or choose another suite"},
		{"key of another SA", "suite: aes128-sha256\n      key: " + keyB + "\n      auth_key: " + keyC, "suite: aes128gcm16\n      key: 0x" + keyA, `f:17:12: ipsec.sas[1].key: same key as "branch-out" in line 4: aes128gcm16 would reuse nonces, which reveals the plaintext; generate a separate key for each SA, also for the two directions of a tunnel`},
		{"window too large", "name: branch-in", "name: branch-in\n      replay_window: 4097", "f:12:22: ipsec.sas[1].replay_window: 4097 is out of range; write a window from 64 to 4096 packets, or 0 to accept duplicates"},
		{"negative window", "name: branch-in", "name: branch-in\n      replay_window: -1", "f:12:22: ipsec.sas[1].replay_window: -1 is out of range; write a window from 64 to 4096 packets, or 0 to accept duplicates"},
		{"ESN without a window", "name: branch-in", "name: branch-in\n      esn: true\n      replay_window: 0", "f:13:22: ipsec.sas[1].replay_window: extended sequence numbers need a replay window; write 64 to 4096, or esn: false"},
		{"encapsulation from port 0", "name: branch-out", "name: branch-out\n      encap: {sport: 0}", "f:5:15: ipsec.sas[0].encap: sport 0, dport 4500: 0 is not a port; write two ports from 1 to 65535, usually 4500"},
		{"encapsulation from port 0 to port 0", "name: branch-out", "name: branch-out\n      encap: {sport: 0, dport: 0}", "f:5:15: ipsec.sas[0].encap: sport 0, dport 0: 0 is not a port; write two ports from 1 to 65535, usually 4500"},
		{"inbound encapsulation to another port", "name: branch-in", "name: branch-in\n      encap: {dport: 4501}", "f:12:15: ipsec.sas[1].encap: dport 4501: ESP in UDP is received only on port 4500; write dport: 4500, and configure the peer to send to it"},
		{"port over 16 bits", "name: branch-out", "name: branch-out\n      encap: {dport: 65536}", "f:5:22: ipsec.sas[0].encap.dport: 65536 is out of range; write an integer such as 4500"},
		{"unknown DF mode", "name: branch-out", "name: branch-out\n      df: maybe", `f:5:11: ipsec.sas[0].df: unknown value "maybe"; write copy, set or clear`},
		{"soft limit over the hard limit", "name: branch-out", "name: branch-out\n      lifetime: {bytes: 5, soft: {bytes: 6}}", "f:5:42: ipsec.sas[0].lifetime.soft.bytes: soft limit 6 exceeds the hard limit 5; write a lower limit, which leaves time for rekeying"},
		{"hard lifetime too long", "name: branch-out", "name: branch-out\n      lifetime: {seconds: 4294967297}", "f:5:27: ipsec.sas[0].lifetime.seconds: 4294967297 is out of range; write a number up to 4294967296, or 0 for no limit"},
		{"soft lifetime too long", "name: branch-out", "name: branch-out\n      lifetime: {soft: {seconds: 4294967297}}", "f:5:34: ipsec.sas[0].lifetime.soft.seconds: 4294967297 is out of range; write a number up to 4294967296, or 0 for no limit"},
		{"lifetime as a duration", "name: branch-out", "name: branch-out\n      lifetime: {seconds: 1h}", `f:5:27: ipsec.sas[0].lifetime.seconds must be an integer, not the string "1h"; write an integer such as 0`},

		{"policy without a direction", "direction: out, src: 10.7.0.0/16, ", "src: 10.7.0.0/16, ", "f:20:8: ipsec.policies[0] has no direction; add one: out or in"},
		{"policy without an action", "action: protect, sa: branch-out", "sport: any", "f:20:8: ipsec.policies[0] has no action; add one: protect, bypass or discard"},
		{"policy without a prefix", "src: 10.7.0.0/16, ", "", "f:20:8: ipsec.policies[0] has no src; add a prefix, 0.0.0.0/0 or ::/0 for any"},
		{"address bits beyond the prefix length", "10.7.0.0/16", "10.7.0.1/16", "f:20:29: ipsec.policies[0].src: 10.7.0.1/16 has address bits beyond the prefix length; did you mean 10.7.0.0/16, or 10.7.0.1/32?"},
		{"address for a prefix", "10.7.0.0/16", "10.7.0.1", `f:20:29: ipsec.policies[0].src: "10.7.0.1" is not an IP prefix; did you mean 10.7.0.1/32?`},
		{"word for a prefix", "10.7.0.0/16", "any", `f:20:29: ipsec.policies[0].src: "any" is not an IP prefix; write one such as 10.7.0.0/16 or 2001:db8::/32; any is 0.0.0.0/0 or ::/0`},
		{"prefixes of different families", "10.7.0.0/16", "2001:db8::/32", "f:20:49: ipsec.policies[0].dst: address families of 10.8.0.0/16 and the source 2001:db8::/32 differ; write two IPv4 or two IPv6 prefixes"},
		{"unknown protocol", "action: protect", "protocol: tpc, action: protect", `f:20:70: ipsec.policies[0].protocol: unknown protocol "tpc"; write a number from 1 to 255, any, icmp, tcp, udp, dccp, gre, esp, ah, icmpv6, ospf, vrrp, sctp, mobility or udplite`},
		{"protocol over 8 bits", "action: protect", "protocol: 256, action: protect", `f:20:70: ipsec.policies[0].protocol: unknown protocol "256"; write a number from 1 to 255, any, icmp, tcp, udp, dccp, gre, esp, ah, icmpv6, ospf, vrrp, sctp, mobility or udplite`},
		{"ICMP of the other family", "action: protect", "protocol: icmpv6, action: protect", "f:20:70: ipsec.policies[0].protocol: icmpv6 is an IPv6 protocol; write icmp"},
		{"ports of any protocol", "action: protect", "dport: 80, action: protect", "f:20:67: ipsec.policies[0].dport: ports need a protocol with ports; add one such as `protocol: tcp`, or write any"},
		{"ports of a protocol without ports", "action: protect", "protocol: esp, sport: 80, action: protect", "f:20:82: ipsec.policies[0].sport: ports need a protocol with ports; add one such as `protocol: tcp`, or write any"},
		{"reversed range", "action: protect", "protocol: tcp, dport: 9-8, action: protect", "f:20:82: ipsec.policies[0].dport: 9-8 ends before it begins; did you mean 8-9?"},
		{"name of a port", "action: protect", "protocol: tcp, dport: http, action: protect", `f:20:82: ipsec.policies[0].dport: "http" is neither a port nor a range of ports; write one such as 80, a range such as 1000-2000, or any`},
		{"list of ports", "action: protect", "protocol: tcp, dport: [80, 443], action: protect", "f:20:82: ipsec.policies[0].dport must be a port or a range of ports, not a list; write one such as 80, a range such as 1000-2000, or any"},
		{"protect without an SA", ", sa: branch-out", "", "f:20:8: ipsec.policies[0] has no sa; add the name of an SA"},
		{"misspelt SA", "sa: branch-out", "sa: branch-uot", `f:20:81: ipsec.policies[0].sa: unknown SA "branch-uot"; did you mean "branch-out"?`},
		{"unknown SA", "sa: branch-out", "sa: head-office", `f:20:81: ipsec.policies[0].sa: unknown SA "head-office"; write an SA with direction: out: branch-out`},
		{"SA of the other direction", "sa: branch-out", "sa: branch-in", `f:20:81: ipsec.policies[0].sa: SA "branch-in" has direction: in, the policy has direction: out; write an SA with direction: out: branch-out`},
		{"transport mode SA of the other family", "src: 192.0.2.1\n      dst: 192.0.2.2", "mode: transport\n      src: 2001:db8::1\n      dst: 2001:db8::2", `f:21:81: ipsec.policies[0].sa: address families of the policy and of transport mode SA "branch-out" to 2001:db8::2 differ; change the prefixes, or use tunnel mode`},
		{"SA of a bypass policy", "action: protect", "action: bypass", "f:20:80: ipsec.policies[0].sa: action: bypass takes no SA; remove it, or write action: protect"},
		{"misspelt key of a name that a policy uses", "name: branch-out", "nam: branch-out", `f:4:7: unknown key "nam" in ipsec.sas[0]; did you mean "name"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tunnel, tt.right) {
				t.Fatalf("the tunnel has no %q", tt.right)
			}
			_, err := Parse("f", []byte(strings.Replace(tunnel, tt.right, tt.wrong, 1)))
			checkError(t, err, tt.want)
		})
	}
}

func TestKeysOfWrongLengthAreRefused(t *testing.T) {
	for _, s := range suite.All {
		for _, tt := range []struct {
			name      string
			key, auth int // bytes in excess of the right length
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
			case key < 0 || auth < 0: // impossible
			case tt.want == "" && err != nil:
				t.Errorf("%s, %s: %v", s.Name, tt.name, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s, %s: got %v, want an error about %s", s.Name, tt.name, err, tt.want)
			}
		}
	}
}

// checkError checks the text of an error of Parse, and that it has a hint.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want error\n%s", want)
	}
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
	var e *Error
	if !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("no *Error with a hint in %#v", err)
	}
}
