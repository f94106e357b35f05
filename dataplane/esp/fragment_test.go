package esp_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Fragments of ESP and UDP for this host skip the policies; fragments for others do not.
func TestESPFragmentsAreReassembledBeforePolicies(t *testing.T) {
	fragment := func(dst string, proto byte) []byte {
		return testutil.Edit(testutil.Edit(testutil.UDP4("192.0.2.1", dst, 0, 0x1234, make([]byte, 64)...), 9, proto), 6, 0x20, 0)
	}
	fragment6 := func(proto byte) []byte {
		return testutil.Edit(testutil.Edit(testutil.UDP6("2001:db8::1", "fd06::1", 0, 0x1234, make([]byte, 64)...), 6, 44), 40, proto, 0, 0, 1)
	}
	for _, d := range []ipsec.Direction{ipsec.In, ipsec.Out} {
		w, g, s := secured(t, config(d, false))
		var rules []gateway.Rule
		for _, any := range []string{"0.0.0.0/0", "::/0"} {
			rules = append(rules, gateway.Rule{Direction: d, Policy: policy.Policy{Src: prefix(any), Dst: prefix(any), Action: policy.Protect, Target: s.Tunnel()}})
		}
		require.NoError(t, g.SetRules(rules))
		for _, frame := range [][]byte{fragment("10.6.0.1", 50), fragment6(50), fragment("10.6.0.1", 17), fragment6(17)} {
			if r := w.Submit(2, frame)[0]; r.Verdict != batch.Drop(batch.FragmentsMissing) || !bytes.Equal(w.Received(0), frame) {
				t.Errorf("%v: for this host: %v", d, r.Verdict)
			}
		}
		want := batch.Drop(batch.XfrmInTmplMismatch)
		if d == ipsec.Out {
			want = batch.Forward(1)
		}
		if r := w.Submit(2, fragment("10.1.0.1", 50))[0]; r.Verdict != want || s.Sequence() != uint64(1-d) {
			t.Errorf("%v: for another: %v, %d sealed", d, r.Verdict, s.Sequence())
		}
	}
}

// Transport mode protects whole packets (RFC 4303 section 3.3.4).
func TestTransportModeFragmentsAfterESP(t *testing.T) {
	for _, df := range []byte{0, 0x40} {
		w, _, s := secured(t, config(ipsec.Out, false), func(c *ipsec.Config) { c.Mode = ipsec.Transport })
		frame := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.9.9", 1, 2, make([]byte, 1472)...), 6, df)
		r := w.Submit(1, frame)[0]
		want := uint16(1500) // of the ESP packet
		if df != 0 {
			want = 1500 - 8 - 8 - 16 - 2 // of the packet that could be protected
		}
		if r.Verdict != batch.Drop(batch.MTUExceeded) || r.MTU() != want || (s.Sequence() == 1) != (df == 0) {
			t.Errorf("don't fragment %#x: %v, %d would fit, %d packets sealed", df, r.Verdict, r.MTU(), s.Sequence())
		}
	}
}

func TestFragmentAfterESP(t *testing.T) {
	large := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1470)...)
	for _, c := range []struct {
		after bool
		frame []byte
		spi   bool
	}{{true, large, true}, {false, large, false}, {true, testutil.Edit(large, 6, 0x40), false}} {
		w, g, _ := secured(t, config(ipsec.Out, false))
		g.FragmentAfter = c.after
		r := w.Submit(1, c.frame)[0]
		_, _, is := ipsec.Inbound(w.Received(0)[packet.EthernetLen:])
		if r.Verdict != batch.Drop(batch.MTUExceeded) || is != c.spi {
			t.Errorf("after %v: %v, protected %v", c.after, r.Verdict, is)
		}
		if c.spi && r.MTU() != 1500 {
			t.Errorf("%d bytes fit, want the port's 1500", r.MTU())
		}
	}
}

// IPv6 packets of up to 1,280 bytes pass a tunnel with a smaller MTU, as fragmented ESP.
func TestMinimumMTUPacketsAreFragmentedAsESP(t *testing.T) {
	const path = 1300
	for _, outer6 := range []bool{false, true} {
		w, _, s := secured(t, config(ipsec.Out, outer6))
		s.SetPathMTU(path)
		frame := testutil.UDP6("2001:db8::1", "fd01::9", 1, 2, make([]byte, 1280-48)...)
		r := w.Submit(1, frame)[0]
		p := w.Received(0)[packet.EthernetLen:]
		if _, _, is := ipsec.Inbound(p); r != batch.DropTooBigESP(path) || !is {
			t.Errorf("outer IPv6 %v: %+v, protected %v", outer6, r, is)
		}
		if h := (*packet.IPv4)(p); !outer6 && (p[6]&0x40 != 0 || !h.ChecksumOK()) {
			t.Errorf("the packet may not be fragmented: % x", p[:packet.IPv4Len])
		}
		w, _, s = secured(t, config(ipsec.Out, outer6))
		s.SetPathMTU(path)
		frame = testutil.UDP6("2001:db8::1", "fd01::9", 1, 2, make([]byte, 1280-48+1)...)
		if r := w.Submit(1, frame)[0]; r != batch.DropTooBig(1280) {
			t.Errorf("outer IPv6 %v, a byte more: %+v", outer6, r)
		}
	}
}

// Fragments of a packet out of one tunnel pass to the next by their mark.
func TestFragmentsBetweenTunnelsSkipInboundPolicies(t *testing.T) {
	a, _, _ := secured(t, config(ipsec.Out, false))
	r := a.Submit(0, testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1400)...))[0]
	wire := bytes.Clone(a.Sent(r))
	copy(wire[:6], mac1)
	b, g, in := secured(t, config(ipsec.In, false))
	c := config(ipsec.Out, false)
	c.Tunnel, c.Dst = g.Tunnel("next"), netip.MustParseAddr("10.1.9.8")
	out, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(out))
	protect := policy.Policy{Src: prefix("192.0.2.0/24"), Dst: prefix("10.1.0.0/16"), Action: policy.Protect}
	arrives, leaves := protect, protect
	arrives.Target, leaves.Target = in.Tunnel(), out.Tunnel()
	require.NoError(t, g.SetRules([]gateway.Rule{{Direction: ipsec.In, Policy: arrives}, {Direction: ipsec.Out, Policy: leaves}}))
	out.SetPathMTU(1400)
	if r := b.Submit(2, wire)[0]; r.Verdict != batch.Drop(batch.MTUExceeded) || r.MTU() == 0 {
		t.Fatalf("%+v", r)
	}
	origin := b.Chunk.In[0].Origin // of the fragments, too
	fragment := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 800)...), 6, 0x20)
	if r := b.Submit(origin, fragment)[0]; r.Verdict != batch.Forward(1) || out.Sequence() != 1 {
		t.Errorf("a fragment: %v, %d packets sealed", r.Verdict, out.Sequence())
	}
	if r := b.Submit(2, fragment)[0]; r.Verdict != batch.Drop(batch.XfrmInTmplMismatch) {
		t.Errorf("a fragment received in plaintext: %v", r.Verdict)
	}
}

// Fragments of an ICMP error do not show the policies its quotation.
func TestLargeICMPErrorsAreFragmentedAsESP(t *testing.T) {
	for _, outer6 := range []bool{false, true} {
		w, _, s := secured(t, config(ipsec.Out, outer6))
		behind(w)
		s.SetPathMTU(500)
		genuine := about(testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1")
		r := w.Submit(lan, longer(genuine, 570))[0]
		f := w.Chunk.In[0]
		_, _, is := ipsec.Inbound(w.Received(0)[packet.EthernetLen:])
		if !r.RouterFragments() || !f.Origin.Has(batch.PolicyDone) || !is {
			t.Errorf("outer IPv6 %v: %v, origin %#x, ESP %v", outer6, r.Verdict, f.Origin, is)
		}
	}
}
