package xfrm

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/suite"
)

// testSuites adds a state of every suite to Linux. Its SA encrypts a packet like an SA with the
// same keys that was never in Linux.
func testSuites(t *testing.T) {
	names := map[suite.Cipher]string{suite.Null: "ecb(cipher_null)", suite.CBC: "cbc(aes)", suite.CTR: "rfc3686(ctr(aes))",
		suite.GCM: "rfc4106(gcm(aes))", suite.ChaCha20: "rfc7539esp(chacha20,poly1305)"}
	hashes := map[suite.Auth]string{suite.SHA1: "hmac(sha1)", suite.SHA256: "hmac(sha256)", suite.SHA512: "hmac(sha512)"}
	k := newKernel(t)
	for i, st := range suite.All {
		key, authKey := keyOf(st.KeyLen+st.SaltLen, byte(1+i)), keyOf(st.AuthKeyLen, 101)
		spi := uint32(0x1000 + i)
		text := fmt.Sprintf(outSA, spi)
		hexOf := func(b []byte) string {
			if len(b) == 0 {
				return `""`
			}
			return "0x" + hex.EncodeToString(b)
		}
		if st.Auth == suite.Combined {
			text += fmt.Sprintf("aead %s %s %d", names[st.Cipher], hexOf(key), 8*st.ICVLen)
		} else {
			text += fmt.Sprintf("enc %s %s auth-trunc %s %s %d", names[st.Cipher], hexOf(key), hashes[st.Auth], hexOf(authKey), 8*st.ICVLen)
		}
		k.ip(text)
		got := k.association(spi)
		want, err := ipsec.NewSA(ipsec.Config{SPI: spi, Src: got.Config().Src, Dst: got.Config().Dst, Suite: st.Name, Key: key, AuthKey: authKey, Nonces: got.Config().Nonces}, 1)
		require.NoError(t, err)
		var sealed [2][]byte
		for i, s := range []*ipsec.SA{got, want} {
			buf := make([]byte, 512)
			n := copy(buf[128:], echo(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1"), 1))
			at, n, e := s.Encapsulate(0, buf, 128, n)
			if e != ipsec.OK {
				t.Fatalf("%s: %v", st.Name, e)
			}
			sealed[i] = buf[at : at+n]
		}
		if !bytes.Equal(sealed[0], sealed[1]) {
			t.Errorf("%s (as %s): another packet than with the same keys", st.Name, got.Suite().Name)
		}
	}
}

// testForms compares the parameters of states with those of their SAs.
func testForms(t *testing.T) {
	k := newKernel(t)
	for i, test := range []struct {
		what, ids, options string
		want               ipsec.Config
	}{
		{"IPv6 outside", "src 2001:db8::1 dst 2001:db8::2", "mode tunnel flag af-unspec",
			ipsec.Config{Src: here6, Dst: here6.Next()}},
		{"transport mode", "src 192.0.2.1 dst 192.0.2.2", "mode transport sel src 192.0.2.1/32 dst 192.0.2.2/32",
			ipsec.Config{Src: here, Dst: there, Mode: ipsec.Transport}},
		{"UDP encapsulation", "src 192.0.2.1 dst 192.0.2.2", "mode tunnel encap espinudp 4500 1234 0.0.0.0",
			ipsec.Config{Src: here, Dst: there, Encap: &ipsec.Encap{SrcPort: 4500, DstPort: 1234}}},
		{"extended sequence numbers and a wide window", "src 192.0.2.2 dst 192.0.2.1", "mode tunnel flag esn replay-window 4096",
			ipsec.Config{Direction: ipsec.In, Src: there, Dst: here, ESN: true, ReplayWindow: 4096}},
		{"a narrow window", "src 192.0.2.2 dst 192.0.2.1", "mode tunnel replay-window 32",
			ipsec.Config{Direction: ipsec.In, Src: there, Dst: here, ReplayWindow: minWindow}},
		{"no path MTU discovery", "src 192.0.2.1 dst 192.0.2.2", "mode tunnel flag nopmtudisc",
			ipsec.Config{Src: here, Dst: there, DF: ipsec.ClearDF}},
		{"XFRM interface", "src 192.0.2.1 dst 192.0.2.2", "mode tunnel if_id 7", ipsec.Config{Src: here, Dst: there, IfID: 7}},
		{"limits", "src 192.0.2.1 dst 192.0.2.2", "mode tunnel limit packet-soft 10 limit packet-hard 20 limit byte-soft 100 limit byte-hard 200 limit time-soft 30 limit time-hard 60",
			ipsec.Config{Src: here, Dst: there, Lifetime: ipsec.Lifetime{
				Soft: ipsec.Limits{Packets: 10, Bytes: 100}, Hard: ipsec.Limits{Packets: 20, Bytes: 200, Age: time.Minute}}}},
	} {
		spi := uint32(0x3000 + i)
		options, sel, _ := strings.Cut(test.options, " sel ")
		if sel != "" {
			sel = " sel " + sel
		}
		k.ip(fmt.Sprintf("xfrm state add %s proto esp spi %#x reqid 1 %s%s%s", test.ids, spi, options, keyFor(spi), sel))
		got := k.association(spi).Config()
		if got.Tunnel != k.gateway.Tunnel(tunnelID{test.want.Src, test.want.Dst, uint8(1 - test.want.Mode), 1, test.want.IfID}.String()) {
			t.Errorf("%s: of tunnel %d", test.what, got.Tunnel)
		}
		test.want.SPI, test.want.Suite = spi, "aes128gcm16"
		got.Name, got.Tunnel, got.Clock, got.Nonces = "", 0, nil, nil
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.what, got, test.want)
		}
	}
}

// testRefusals adds states to Linux that the mirror refuses.
func testRefusals(t *testing.T) {
	k := newKernel(t)
	const base = "xfrm state add src 192.0.2.1 dst 192.0.2.2 "
	for i, test := range []struct{ state, why string }{
		{base + "proto ah mode tunnel auth-trunc hmac(sha256) 0x%064d 128", "protocol 51"},
		{base + "proto esp mode beet" + anyKey, "mode 4"},
		{base + "proto esp mode tunnel mark 1 mask 1" + anyKey, "mark"},
		{base + "proto esp mode transport if_id 7" + anyKey, "transport mode on an XFRM interface (if_id 7)"},
		{base + "proto esp mode tunnel sel src 10.0.0.0/8 dst 10.2.0.0/16" + anyKey, "selector"},
		{base + "proto esp mode tunnel flag noecn" + anyKey, "noecn"},
		{base + "proto esp mode tunnel tfcpad 1000" + anyKey, "tfcpad"},
		{base + "proto esp mode tunnel output-mark 1" + anyKey, "output-mark"},
		{base + "proto esp mode tunnel extra-flag dont-encap-dscp" + anyKey, "dont-encap-dscp"},
		{base + "proto esp mode tunnel aead rfc4543(gcm(aes)) 0x0102030405060708090a0b0c0d0e0f1011121314 128", "rfc4543(gcm(aes))"},
		{base + "proto esp mode tunnel aead rfc4106(gcm(aes)) 0x0102030405060708090a0b0c0d0e0f1011121314 96", "96-bit ICV"},
		{base + "proto esp mode tunnel aead rfc4106(gcm(aes)) 0x0000000000000000000000000000000000000000 128", "all zeros"},
		{"xfrm state add src 192.0.2.1 dst 0.0.0.0 proto esp mode transport" + anyKey, "wildcard"},
	} {
		spi := uint32(0x2000 + i)
		text := test.state
		if strings.Contains(text, "%0") {
			text = fmt.Sprintf(text, 7)
		}
		text = strings.Replace(text, " mode ", fmt.Sprintf(" spi %#x reqid 1 mode ", spi), 1)
		if err := k.tryIP(text); err != nil {
			t.Errorf("%s: Linux refuses it itself: %v", test.why, err)
			continue
		}
		k.eventually(test.why, func() error {
			for id, a := range k.mirror.states {
				if id.spi == spi {
					if a.sa != nil || !a.refused || !strings.Contains(a.refusal, test.why) {
						return fmt.Errorf("refused %v: %q", a.refused, a.refusal)
					}
					return nil
				}
			}
			return fmt.Errorf("no state")
		})
	}
}

// testPolicies compares the order and the actions of policies with Linux's.
func testPolicies(t *testing.T) {
	k := newKernel(t)
	const from = "xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 "
	const tmpl = " tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 1 mode tunnel"
	k.ip(
		from+"dir out priority 30 action block",
		from+"proto tcp dport 443 dir out priority 10",
		from+"proto udp sport 53 dir out priority 20"+tmpl,
		from+"proto gre key 7 dir out priority 25",
		from+"dir out priority 28 mark 1 mask 0xff",
		from+"dir fwd priority 5"+tmpl,
		from+"dir in priority 5"+tmpl,
		"xfrm policy add src 10.1.0.0/16 dst 10.3.0.0/16 dir out priority 30"+tmpl+" tmpl proto comp mode transport",
		"xfrm policy add src fd00::/64 dst fd01::/64 dir out priority 1"+tmpl,
	)
	want := []string{
		"out fd00::/64 to fd01::/64 protect",
		"in 10.1.0.0/16 to 10.2.0.0/16 protect",
		"out 10.1.0.0/16 to 10.2.0.0/16 protocol 6 ports any to 443 bypass",
		"out 10.1.0.0/16 to 10.2.0.0/16 protocol 17 ports 53 to any protect",
		"out 10.1.0.0/16 to 10.2.0.0/16 protocol 47 refuse",
		"out 10.1.0.0/16 to 10.2.0.0/16 refuse", // of mark 1
		"out 10.1.0.0/16 to 10.2.0.0/16 discard",
		"out 10.1.0.0/16 to 10.3.0.0/16 refuse",
	}
	k.eventually("policies", func() error { return k.rules(want...) })
	k.ip("xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 proto udp sport 53 dir out", "xfrm policy update src fd00::/64 dst fd01::/64 dir out priority 99")
	k.eventually("changed policies", func() error {
		return k.rules(append(append(append([]string{}, want[1:3]...), want[4:]...), "out fd00::/64 to fd01::/64 bypass")...)
	})
	k.ip("xfrm policy setdefault out block fwd block")
	k.eventually("default policies", func() error {
		all := k.gateway.Rules()
		if n := len(all); n != 11 || all[n-1].Action != ipsecpolicy.Discard || all[n-1].Src.Bits() != 0 {
			return fmt.Errorf("%d rules", n)
		}
		return nil
	})
	k.ip("xfrm policy setdefault out accept fwd accept", "xfrm policy flush")
	k.eventually("no policies", func() error { return k.rules() })
}

// testRestart restarts the mirror: no sequence number is used again, whether Linux knows it or not.
func testRestart(t *testing.T) {
	k := newKernel(t)
	k.ip(fmt.Sprintf(outSA, 0x1000)+"replay-window 32"+keyFor(0x1000),
		"xfrm state add src 192.0.2.2 dst 192.0.2.1 proto esp spi 0x1001 reqid 1 mode tunnel replay-window 128 flag esn"+keyFor(0x1001))
	out, in := k.association(0x1000), k.association(0x1001)
	out.Reserve(500)
	out.Count(0, 500, 50_000)
	in.Accept(1<<32 + 7)
	in.Count(0, 1, 100)
	k.mirror.Close() // reports the use to Linux
	text, err := k.Run("ip", "-s", "xfrm", "state")
	require.NoError(t, err)
	if err := contains(text, "50000(bytes), 500(packets)", "oseq 0x1f4", "seq-hi 0x1, seq 0x7", "100(bytes), 1(packets)"); err != nil {
		t.Error(err)
	}
	k.start()
	if got := k.association(0x1000).Sequence(); got != 500+restartGap {
		t.Errorf("the outbound association continues after %d", got)
	}
	if got := k.association(0x1001); got.Accept(1<<32+7) || !got.Accept(1<<32+8) {
		t.Errorf("the inbound association continues after %d", got.Sequence())
	}
	// A crash within the first second: no use was reported.
	k.association(0x1000).Reserve(1000)
	k.start()
	if got := k.association(0x1000).Sequence(); got != 500+2*restartGap {
		t.Errorf("after a crash the outbound association continues after %d", got)
	}
}

// testOverrun loses events, after which the mirror has all of Linux's policies.
func testOverrun(t *testing.T) {
	was := receiveBuffer
	receiveBuffer = 4096
	defer func() { receiveBuffer = was }()
	k := newKernel(t)
	const n = 2000
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("xfrm policy add src 10.%d.%d.0/24 dst 10.99.0.0/16 dir out priority %d", i>>8, i&255, i))
	}
	release := make(chan struct{})
	go k.mirror.Do(func() { <-release }) // blocks the mirror meanwhile
	k.ip(lines...)
	close(release)
	k.eventually("all policies", func() error {
		if got := len(k.gateway.Rules()); got != n {
			return fmt.Errorf("%d of %d", got, n)
		}
		if last := k.gateway.Rules()[n-1]; last.Src != netip.MustParsePrefix("10.7.207.0/24") {
			return fmt.Errorf("the last is %v", &last.Policy)
		}
		return nil
	})
	if _, loop, _ := k.mirror.Stats(); loop.Resyncs == 0 {
		t.Error("no event was lost: the test does not test")
	}
}
