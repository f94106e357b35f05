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
	"github.com/warproute/warproute/packet"
)

// The second gateway forwards the packet that entered the first, with two hops less.
func TestTwoGatewaysFormATunnel(t *testing.T) {
	for _, outer6 := range []bool{false, true} {
		for name, frame := range map[string][]byte{"IPv4": to4("10.1.0.9"), "IPv6": to6("fd01::9")} {
			a, _, sa := secured(t, config(ipsec.Out, outer6))
			r := a.Submit(0, frame)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatalf("%s: %v", name, r.Verdict)
			}
			wire := bytes.Clone(a.Sent(r))
			if bytes.Contains(wire, frame[packet.EthernetLen+24:]) {
				t.Errorf("%s: the wire has the packet in plaintext", name)
			}
			if n := sa.Stats().Packets; n != 1 || sa.Sequence() != 1 {
				t.Errorf("%s: %d packets counted", name, n)
			}
			b, _, _ := secured(t, config(ipsec.In, outer6))
			copy(wire[:6], mac1)
			r = b.Submit(2, wire)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatalf("%s: at the other end: %v", name, r.Verdict)
			}
			want := bytes.Clone(frame[packet.EthernetLen:])
			if want[0]>>4 == 4 {
				want = testutil.Edit(frame, 8, 62)[packet.EthernetLen:]
			} else {
				want[7] = 62
			}
			if got := b.Sent(r)[packet.EthernetLen:]; !bytes.Equal(got, want) {
				t.Errorf("%s:\n got  % x\n want % x", name, got, want)
			}
		}
	}
}

// ESP for this host without an SA is dropped; ESP for other hosts is forwarded.
func TestESPWithoutSA(t *testing.T) {
	a, _, _ := secured(t, config(ipsec.Out, false))
	wire := bytes.Clone(a.Sent(a.Submit(0, to4("10.1.0.9"))[0]))
	copy(wire[:6], mac1)
	to := func(net byte) []byte { return testutil.Edit(wire, 16, 10, net, 0, 1) }
	b, g, _ := secured(t, config(ipsec.In, false), func(c *ipsec.Config) { c.SPI++ })
	out := b.Submit(2, to(6), to(1))
	if out[0].Verdict != batch.Drop(batch.XfrmInNoStates) || b.Chunk.In[0].Origin.Has(batch.PolicyDone) || !bytes.Equal(b.Received(0), to(6)) {
		t.Errorf("for us: %v, origin %#x", out[0].Verdict, b.Chunk.In[0].Origin)
	}
	if out[1].Verdict != batch.Forward(1) {
		t.Errorf("for others: %v", out[1].Verdict)
	}
	c := config(ipsec.In, false)
	c.Tunnel, c.Dst = g.Tunnel("b"), netip.MustParseAddr("10.6.0.1")
	s, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(s))
	if r := b.Submit(2, to(6))[0]; r.Verdict != batch.Forward(1) {
		t.Errorf("when there is an SA: %v", r.Verdict)
	}
}

func TestProtectedTrafficNeverLeavesInPlaintext(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*gateway.Gateway, *ipsec.SA)
		want batch.Reason
	}{
		"removed": {func(g *gateway.Gateway, s *ipsec.SA) { g.Remove(s) }, batch.XfrmOutNoStates},
		"killed":  {func(_ *gateway.Gateway, s *ipsec.SA) { s.Kill() }, batch.XfrmOutStateInvalid},
		"used up": {func(_ *gateway.Gateway, s *ipsec.SA) { s.Skip(1<<32 - 1) }, batch.XfrmOutStateSeqError},
	} {
		w, g, s := secured(t, config(ipsec.Out, false))
		c.harm(g, s)
		frame := to4("10.1.0.9")
		if r := w.Submit(1, frame)[0]; r.Verdict != batch.Drop(c.want) {
			t.Errorf("%s: %v, want %v", name, r.Verdict, c.want)
		}
	}
}

func TestNewestSAIsUsed(t *testing.T) {
	w, g, first := secured(t, config(ipsec.Out, false))
	c := config(ipsec.Out, false)
	c.SPI, c.Tunnel = 0x5678, first.Tunnel()
	second, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	used := func() uint32 {
		w.Submit(1, to4("10.1.0.9"))
		spi, _, _ := ipsec.Inbound(w.Sent(w.Chunk.Out[0])[packet.EthernetLen:])
		return spi
	}
	if spi := used(); spi != 0x1234 {
		t.Fatalf("SPI %#x before", spi)
	}
	require.NoError(t, g.Add(second))
	if spi := used(); spi != 0x5678 {
		t.Errorf("SPI %#x with the new SA", spi)
	}
	g.Remove(first)
	if spi := used(); spi != 0x5678 {
		t.Errorf("SPI %#x without the old one", spi)
	}
	if err := g.Add(first); err == nil {
		g.Remove(first)
	}
}

func TestPacketsOnHoldAreProtectedOnce(t *testing.T) {
	w, _, s := secured(t, config(ipsec.Out, false), func(c *ipsec.Config) { c.Dst = netip.MustParseAddr("10.4.0.1") })
	if r := w.Submit(1, to4("10.1.0.9"))[0]; r.Verdict != batch.Hold {
		t.Fatalf("%v, want hold", r.Verdict)
	}
	w.Net.SetAdjacency(w.Net.Glean, 1, 0x0200000000cc)
	w.Chunk.Out[0] = batch.Result{}
	w.Engine.Submit(w.Chunk)
	r := w.Chunk.Out[0]
	if r.Verdict != batch.Forward(1) || s.Sequence() != 1 {
		t.Fatalf("%v, and %d sequence numbers used", r.Verdict, s.Sequence())
	}
	if spi, _, is := ipsec.Inbound(w.Sent(r)[packet.EthernetLen:]); !is || spi != 0x1234 {
		t.Errorf("% x leaves", w.Sent(r))
	}
}

func TestReplaysAndForgeriesAreDropped(t *testing.T) {
	a, _, _ := secured(t, config(ipsec.Out, false))
	r := a.Submit(0, to4("10.1.0.9"))[0]
	wire := bytes.Clone(a.Sent(r))
	forged := bytes.Clone(wire)
	forged[len(forged)-1]++
	b, _, s := secured(t, config(ipsec.In, false))
	want := []batch.Verdict{
		batch.Drop(batch.XfrmInStateProtoError), batch.Forward(1), batch.Drop(batch.XfrmInStateSeqError), batch.Drop(batch.XfrmInStateSeqError),
	}
	for i, r := range b.Submit(2, forged, wire, wire, forged) {
		if r.Verdict != want[i] {
			t.Errorf("packet %d: %v, want %v", i, r.Verdict, want[i])
		}
	}
	if st := s.Stats(); st.Packets != 1 || st.Replays != 2 || st.ICVFailures != 1 {
		t.Errorf("%+v", st)
	}
}
