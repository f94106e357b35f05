package cpu

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

var prefix = netip.MustParsePrefix

// config is an association between two gateways; both are where port 1 leads.
func config(d esp.Direction, ipv6 bool) esp.Config {
	c := esp.Config{
		Name: d.String(), SPI: 0x1234, Direction: d, Src: netip.MustParseAddr("198.51.100.1"), Dst: netip.MustParseAddr("10.1.9.9"),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{7}, 20), ReplayWindow: 64,
	}
	if ipv6 {
		c.Src, c.Dst = netip.MustParseAddr("2001:db8::f1"), netip.MustParseAddr("fd01::f9")
	}
	return c
}

// secured is a world whose engine has a gateway with one association, and policies for
// 192.0.2/24 to 10.1/16, 10.2/16 and 2001:db8::/64 to fd01::/64, fd02::/64; 10.5/16 is
// discarded, and 10.1.7.7 bypassed.
func secured(t testing.TB, c esp.Config, alter ...func(*esp.Config)) (*world, *gateway.Gateway, *esp.SA) {
	w, g := newWorld(t), &gateway.Gateway{}
	c.Bundle = g.Bundle("b")
	for _, a := range alter {
		a(&c)
	}
	s, err := esp.NewSA(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(s); err != nil {
		t.Fatal(err)
	}
	rule := func(src, dst string, a policy.Action) gateway.Rule {
		r := gateway.Rule{Direction: c.Direction, Policy: policy.Policy{Src: prefix(src), Dst: prefix(dst), Action: a}}
		if a == policy.Protect {
			r.Target = c.Bundle
		}
		return r
	}
	if err := g.SetRules([]gateway.Rule{
		rule("0.0.0.0/0", "10.1.7.7/32", policy.Bypass), rule("0.0.0.0/0", "10.5.0.0/16", policy.Discard),
		rule("192.0.2.0/24", "10.1.0.0/16", policy.Protect), rule("192.0.2.0/24", "10.2.0.0/16", policy.Protect),
		rule("2001:db8::/64", "fd01::/64", policy.Protect), rule("2001:db8::/64", "fd02::/64", policy.Protect),
	}); err != nil {
		t.Fatal(err)
	}
	w.engine.Secure(g, 1)
	return w, g, s
}

// Packets that a policy protects leave as ESP, and the gateway at the other end forwards
// what went in, with one hop less for each.
func TestTwoGatewaysAreATunnel(t *testing.T) {
	for _, outer6 := range []bool{false, true} {
		for name, frame := range map[string][]byte{"IPv4": to4("10.1.0.9"), "IPv6": to6("fd01::9")} {
			a, _, sa := secured(t, config(esp.Out, outer6))
			r := a.submit(0, frame)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatalf("%s: %v", name, r.Verdict)
			}
			wire := bytes.Clone(a.bytes(r))
			if bytes.Contains(wire, frame[packet.EthernetLen+24:]) {
				t.Errorf("%s: the wire has the packet in clear", name)
			}
			if n := sa.Stats().Packets; n != 1 || sa.Sequence() != 1 {
				t.Errorf("%s: %d packets counted", name, n)
			}
			b, _, _ := secured(t, config(esp.In, outer6))
			copy(wire[:6], mac1)
			r = b.submit(2, wire)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatalf("%s: at the other end: %v", name, r.Verdict)
			}
			want := bytes.Clone(frame[packet.EthernetLen:])
			if want[0]>>4 == 4 {
				want = testutil.Edit(frame, 8, 62)[packet.EthernetLen:]
			} else {
				want[7] = 62
			}
			if got := b.bytes(r)[packet.EthernetLen:]; !bytes.Equal(got, want) {
				t.Errorf("%s:\n got  % x\n want % x", name, got, want)
			}
		}
	}
}

var mac1 = []byte{2, 0, 0, 0, 0, 0x11}

func TestPoliciesDecideWhatPasses(t *testing.T) {
	drop := batch.Drop
	clear4 := testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 40)...)
	for _, c := range []struct {
		name      string
		direction esp.Direction
		frame     []byte
		want      batch.Verdict
	}{
		{"out: no policy", esp.Out, clear4, batch.Forward(1)},
		{"out: bypass", esp.Out, to4("10.1.7.7"), batch.Forward(1)},
		{"out: discard", esp.Out, to4("10.5.0.1"), drop(batch.XfrmOutPolBlock)},
		{"out: malformed", esp.Out, testutil.Edit(to4("10.1.0.9"), 0, 0x55), drop(batch.IPVersion)},
		{"out: TTL", esp.Out, testutil.Edit(to4("10.1.0.9"), 8, 1), drop(batch.TTLExpired)},
		{"in: no policy", esp.In, clear4, batch.Forward(1)},
		{"in: bypass", esp.In, to4("10.1.7.7"), batch.Forward(1)},
		{"in: discard", esp.In, to4("10.5.0.1"), drop(batch.XfrmInPolBlock)},
		{"in: in clear what should be protected", esp.In, to4("10.1.0.9"), drop(batch.XfrmInTmplMismatch)},
		{"in: IPv6 in clear what should be protected", esp.In, to6("fd01::9"), drop(batch.XfrmInTmplMismatch)},
	} {
		w, _, _ := secured(t, config(c.direction, false))
		r := w.submit(1, c.frame)[0]
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if r.Verdict.Action() == batch.ActionForward && r.Addr != w.chunk.In[0].Addr {
			t.Errorf("%s: the packet was moved", c.name)
		}
	}
}

// ESP for this host has an association, or waits for one; what is for others passes.
func TestESPWithoutAnAssociation(t *testing.T) {
	a, _, _ := secured(t, config(esp.Out, false))
	wire := bytes.Clone(a.bytes(a.submit(0, to4("10.1.0.9"))[0]))
	copy(wire[:6], mac1)
	to := func(net byte) []byte { return testutil.Edit(wire, 16, 10, net, 0, 1) }
	b, g, _ := secured(t, config(esp.In, false), func(c *esp.Config) { c.SPI++ })
	out := b.submit(2, to(6), to(1))
	if out[0].Verdict != batch.Drop(batch.XfrmInNoStates) || b.chunk.In[0].Port&batch.Secured != 0 || !bytes.Equal(b.received(0), to(6)) {
		t.Errorf("for us: %v, of port %#x", out[0].Verdict, b.chunk.In[0].Port)
	}
	if out[1].Verdict != batch.Forward(1) {
		t.Errorf("for others: %v", out[1].Verdict)
	}
	c := config(esp.In, false)
	c.Bundle, c.Dst = g.Bundle("b"), netip.MustParseAddr("10.6.0.1")
	s, err := esp.NewSA(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(s); err != nil {
		t.Fatal(err)
	}
	if r := b.submit(2, to(6))[0]; r.Verdict != batch.Forward(1) {
		t.Errorf("when there is an association: %v", r.Verdict)
	}
}

// Nothing leaves in clear because its association is missing, killed or used up.
func TestNothingLeavesInClear(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*gateway.Gateway, *esp.SA)
		want batch.Reason
	}{
		"removed": {func(g *gateway.Gateway, s *esp.SA) { g.Remove(s) }, batch.XfrmOutNoStates},
		"killed":  {func(_ *gateway.Gateway, s *esp.SA) { s.Kill() }, batch.XfrmOutStateInvalid},
		"used up": {func(_ *gateway.Gateway, s *esp.SA) { s.Skip(1<<32 - 1) }, batch.XfrmOutStateSeqError},
	} {
		w, g, s := secured(t, config(esp.Out, false))
		c.harm(g, s)
		frame := to4("10.1.0.9")
		if r := w.submit(1, frame)[0]; r.Verdict != batch.Drop(c.want) {
			t.Errorf("%s: %v, want %v", name, r.Verdict, c.want)
		}
	}
}

// The association that is added last is used; when it goes, the one before is.
func TestRekeying(t *testing.T) {
	w, g, first := secured(t, config(esp.Out, false))
	c := config(esp.Out, false)
	c.SPI, c.Bundle = 0x5678, first.Bundle()
	second, err := esp.NewSA(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	used := func() uint32 {
		w.submit(1, to4("10.1.0.9"))
		spi, _, _ := esp.Inbound(w.bytes(w.chunk.Out[0])[packet.EthernetLen:])
		return spi
	}
	if spi := used(); spi != 0x1234 {
		t.Fatalf("SPI %#x before", spi)
	}
	if err := g.Add(second); err != nil {
		t.Fatal(err)
	}
	if spi := used(); spi != 0x5678 {
		t.Errorf("SPI %#x with the new association", spi)
	}
	g.Remove(first)
	if spi := used(); spi != 0x5678 {
		t.Errorf("SPI %#x without the old one", spi)
	}
	if err := g.Add(first); err == nil {
		g.Remove(first)
	}
}

// A packet whose neighbour is unknown is protected once, however often it is tried.
func TestHeldPacketsAreProtectedOnce(t *testing.T) {
	w, _, s := secured(t, config(esp.Out, false), func(c *esp.Config) { c.Dst = netip.MustParseAddr("10.4.0.1") })
	if r := w.submit(1, to4("10.1.0.9"))[0]; r.Verdict != batch.Hold {
		t.Fatalf("%v, want hold", r.Verdict)
	}
	w.net.SetAdjacency(w.net.Glean, 1, 0x0200000000cc)
	w.chunk.Out[0] = batch.Result{}
	w.engine.Submit(w.chunk)
	r := w.chunk.Out[0]
	if r.Verdict != batch.Forward(1) || s.Sequence() != 1 {
		t.Fatalf("%v, and %d sequence numbers used", r.Verdict, s.Sequence())
	}
	if spi, _, is := esp.Inbound(w.bytes(r)[packet.EthernetLen:]); !is || spi != 0x1234 {
		t.Errorf("% x leaves", w.bytes(r))
	}
}

func TestReplaysAndForgeriesAreDropped(t *testing.T) {
	a, _, _ := secured(t, config(esp.Out, false))
	r := a.submit(0, to4("10.1.0.9"))[0]
	wire := bytes.Clone(a.bytes(r))
	forged := bytes.Clone(wire)
	forged[len(forged)-1]++
	b, _, s := secured(t, config(esp.In, false))
	want := []batch.Verdict{
		batch.Drop(batch.XfrmInStateProtoError), batch.Forward(1), batch.Drop(batch.XfrmInStateSeqError), batch.Drop(batch.XfrmInStateSeqError),
	}
	for i, r := range b.submit(2, forged, wire, wire, forged) {
		if r.Verdict != want[i] {
			t.Errorf("packet %d: %v, want %v", i, r.Verdict, want[i])
		}
	}
	if st := s.Stats(); st.Packets != 1 || st.Replays != 2 || st.Forgeries != 1 {
		t.Errorf("%+v", st)
	}
}

func TestSecuringDoesNotAllocate(t *testing.T) {
	w, _, _ := secured(t, config(esp.Out, false))
	frames := [][]byte{to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to4("172.16.0.1")}
	if n := testing.AllocsPerRun(100, func() { w.submit(0, frames...) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// Reasons are the errors of package ipsec, in order and by name.
func TestReasonsAreNamedAsErrors(t *testing.T) {
	for e := esp.OK + 1; e < esp.Errors; e++ {
		name := strings.ReplaceAll(reasonOf(e).String(), "_", "")
		if !strings.EqualFold(name, e.String()) {
			t.Errorf("%v is the reason %v", e, reasonOf(e))
		}
	}
}

// What a packet becomes does not depend on those that are decided on together with it.
func TestBlocksAreAsPacketsOneByOne(t *testing.T) {
	plain := [][]byte{
		to4("10.1.0.9"), to6("fd01::9"), to4("10.1.7.7"), to4("10.5.0.1"), to4("172.16.0.1"), {1, 2, 3},
		testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, 1450)...), testutil.Edit(to4("10.1.0.9"), 8, 1),
		testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 40)...),
	}
	var clear, wire [][]byte
	a, _, _ := secured(t, config(esp.Out, false))
	for i := range 200 {
		clear = append(clear, plain[i*5%len(plain)])
		r := a.submit(0, to4("10.1.0.9"))[0]
		sealed := bytes.Clone(a.bytes(r))
		switch i % 7 {
		case 3:
			sealed[40]++
		case 5:
			sealed = wire[i-2] // again
		case 6:
			sealed = clear[i]
		}
		wire = append(wire, sealed)
	}
	for d, frames := range map[esp.Direction][][]byte{esp.Out: clear, esp.In: wire} {
		together, _, _ := secured(t, config(d, false))
		single, _, _ := secured(t, config(d, false))
		results := together.submit(2, frames...)
		verdicts := map[batch.Verdict]bool{}
		for i, f := range frames {
			want := single.submit(2, f)[0]
			got := results[i]
			verdicts[got.Verdict] = true
			if got.Verdict != want.Verdict || got.Len != want.Len {
				t.Fatalf("%v, packet %d: %v, alone %v", d, i, got, want)
			}
			if got.Verdict.Action() == batch.ActionForward && !bytes.Equal(together.bytes(got), single.bytes(want)) {
				t.Errorf("%v, packet %d:\n together % x\n alone    % x", d, i, together.bytes(got), single.bytes(want))
			}
		}
		if len(verdicts) < 4 {
			t.Errorf("%v: only %v", d, verdicts)
		}
	}
}

// Fragments of ESP and UDP for this host wait to be put together whatever the policies say of
// their addresses; those for others are packets like any.
func TestFragmentsOfESPMeetNoPolicy(t *testing.T) {
	fragment := func(dst string, proto byte) []byte {
		return testutil.Edit(testutil.Edit(testutil.UDP4("192.0.2.1", dst, 0, 0x1234, make([]byte, 64)...), 9, proto), 6, 0x20, 0)
	}
	fragment6 := func(proto byte) []byte {
		return testutil.Edit(testutil.Edit(testutil.UDP6("2001:db8::1", "fd06::1", 0, 0x1234, make([]byte, 64)...), 6, 44), 40, proto, 0, 0, 1)
	}
	for _, d := range []esp.Direction{esp.In, esp.Out} {
		w, g, s := secured(t, config(d, false))
		var rules []gateway.Rule
		for _, any := range []string{"0.0.0.0/0", "::/0"} {
			rules = append(rules, gateway.Rule{Direction: d, Policy: policy.Policy{Src: prefix(any), Dst: prefix(any), Action: policy.Protect, Target: s.Bundle()}})
		}
		if err := g.SetRules(rules); err != nil {
			t.Fatal(err)
		}
		for _, frame := range [][]byte{fragment("10.6.0.1", 50), fragment6(50), fragment("10.6.0.1", 17), fragment6(17)} {
			if r := w.submit(2, frame)[0]; r.Verdict != batch.Drop(batch.FragmentsMissing) || !bytes.Equal(w.received(0), frame) {
				t.Errorf("%v: for this host: %v", d, r.Verdict)
			}
		}
		want := batch.Drop(batch.XfrmInTmplMismatch)
		if d == esp.Out {
			want = batch.Forward(1)
		}
		if r := w.submit(2, fragment("10.1.0.1", 50))[0]; r.Verdict != want || s.Sequence() != uint64(1-d) {
			t.Errorf("%v: for another: %v, %d sealed", d, r.Verdict, s.Sequence())
		}
	}
}

// What a packet may grow into is its own frame's memory, of a large frame all of it.
func TestRoomIsThatOfTheFrame(t *testing.T) {
	e := &Engine{mem: make([]byte, 4*umem.LargeSize), large: umem.LargeSize, largeSize: umem.LargeSize}
	for _, c := range []struct {
		name       string
		start      uint32
		at, length uint32 // of the Ethernet header, from the frame's start
		want       int
	}{
		{"the longest received", 3 * umem.FrameSize, umem.DataOffset, umem.MaxFrameLen, umem.FrameSize},
		{"one that grew in front", 3 * umem.FrameSize, 100, umem.FrameSize - 100, umem.FrameSize},
		{"the shortest that is put together", 2 * umem.LargeSize, umem.DataOffset, umem.MaxFrameLen + 1, umem.LargeSize},
		{"jumbo that grew in front", 2 * umem.LargeSize, 100, 9014 + 158, umem.LargeSize},
		{"a short one in a large frame", umem.LargeSize, umem.DataOffset, 60, umem.LargeSize},
	} {
		buf, at, n := e.room(batch.Frame{Addr: c.start + c.at, Len: uint16(c.length)})
		if len(buf) != c.want || &buf[0] != &e.mem[c.start] || at != int(c.at)+14 || n != int(c.length)-14 {
			t.Errorf("%s: %d bytes, of them %d at %d", c.name, len(buf), n, at)
		}
	}
}
