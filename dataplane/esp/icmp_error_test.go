package esp_test

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// ICMP errors about protected packets leave protected, unless they arrive by another port than their quotation leaves by.
func TestICMPErrorsLeaveByTheTunnelOfTheirQuote(t *testing.T) {
	protected4 := testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...)
	protected6 := testutil.UDP6("fd01::9", "2001:db8::1", 1, 2, make([]byte, 40)...)
	echo4 := testutil.Edit(testutil.Edit(protected4, 9, 1), 20, 8)
	fragment6 := testutil.Edit(testutil.Edit(protected6, 6, 44), 40, 60, 0, 0, 8)
	transport := func(c *ipsec.Config) { c.Mode = ipsec.Transport }
	genuine4, genuine6 := about(protected4, "203.0.113.1"), about(protected6, "2001:db8:f::1")
	refused := batch.Drop(batch.XfrmOutPolBlock)
	for _, c := range []struct {
		name         string
		frame        []byte
		alter        []func(*ipsec.Config)
		own, in, out batch.Verdict // if the router made it, it came from the protected side, or from the other
		sealed       bool          // what is forwarded
	}{
		{"IPv4", genuine4, nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"IPv6", genuine6, nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about an echo request", about(echo4, "203.0.113.1"), nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about an IPv6 fragment", about(fragment6, "2001:db8:f::1"), nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about a packet received in plaintext", about(testutil.UDP4("10.1.0.9", "203.0.113.9", 1, 2, make([]byte, 40)...), "203.0.113.1"), nil, batch.Forward(1), batch.Forward(1), batch.Forward(1), false},
		{"an echo reply", testutil.Edit(testutil.UDP4("203.0.113.1", "10.1.0.9", 0, 0, about(protected4, "203.0.113.1")[14:]...), 9, 1), nil, batch.Forward(1), batch.Forward(1), batch.Forward(1), false},
		{"in transport mode", genuine4, []func(*ipsec.Config){transport}, batch.Drop(batch.XfrmOutStateModeError), batch.Drop(batch.XfrmOutStateModeError), refused, false},
		{"to another than the quoted source", testutil.Edit(genuine4, 16, 10, 1, 0, 8), nil, refused, refused, refused, false},
		{"IPv6, to another than the quoted source", testutil.Edit(genuine6, 39, 8), nil, refused, refused, refused, false},
		{"a redirect", testutil.Edit(genuine4, 20, 5), nil, refused, refused, refused, false},
		{"source quench", testutil.Edit(genuine4, 20, 4), nil, refused, refused, refused, false},
		{"longer than errors are", longer(genuine4, 577), nil, refused, refused, refused, false},
		{"as long as errors are", longer(genuine4, 576), nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"IPv6, longer than errors are", longer(genuine6, 1281), nil, refused, refused, refused, false},
		{"IPv6, an error of no known type", testutil.Edit(genuine6, 40, 100), nil, refused, refused, refused, false},
		{"IPv4 that quotes IPv6", quoting(genuine4, protected6), nil, refused, refused, refused, false},
		{"IPv6 that quotes IPv4", quoting(genuine6, protected4), nil, refused, refused, refused, false},
	} {
		for origin, want := range map[batch.Origin]batch.Verdict{lan: c.in, wan: c.out, batch.From(wan).With(batch.Own): c.own} {
			w, _, s := secured(t, config(ipsec.Out, false), c.alter...)
			behind(w)
			r := w.Submit(origin, c.frame)[0]
			sealed := c.sealed && want == batch.Forward(1)
			if r.Verdict != want || (s.Sequence() == 1) != sealed {
				t.Errorf("%s, origin %#x: %v, want %v; %d packets sealed", c.name, origin, r.Verdict, want, s.Sequence())
			}
			if r.Verdict.Action() != batch.ActionForward {
				continue
			}
			if _, _, is := ipsec.Inbound(w.Sent(r)[packet.EthernetLen:]); is != sealed {
				t.Errorf("%s: % x leaves", c.name, w.Sent(r))
			}
		}
	}
}

// longer returns a frame whose packet is extended to n bytes.
func longer(frame []byte, n int) []byte {
	f := append(bytes.Clone(frame), make([]byte, n-(len(frame)-packet.EthernetLen))...)
	if f[packet.EthernetLen]>>4 == 4 {
		return testutil.Edit(f, 2, byte(n>>8), byte(n))
	}
	return testutil.Edit(f, 4, byte((n-packet.IPv6Len)>>8), byte(n-packet.IPv6Len))
}

// quoting returns an ICMP error with another quotation.
func quoting(frame, quoted []byte) []byte {
	at := packet.EthernetLen + packet.IPv4Len + 8
	if frame[packet.EthernetLen]>>4 == 6 {
		at = packet.EthernetLen + packet.IPv6Len + 8
	}
	n := at + len(quoted) - packet.EthernetLen
	f := longer(frame[:at], n-packet.EthernetLen)
	copy(f[at:], quoted[packet.EthernetLen:])
	return f
}

// A strict gateway protects only its own ICMP errors, and checks the quotation of each that it decrypts.
func TestStrictGatewayChecksEveryQuote(t *testing.T) {
	w, g, _ := secured(t, config(ipsec.Out, false))
	behind(w)
	g.StrictErrors = true
	genuine := about(testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1")
	for origin, want := range map[batch.Origin]batch.Verdict{lan: batch.Drop(batch.XfrmOutPolBlock), wan: batch.Drop(batch.XfrmOutPolBlock), batch.From(wan).With(batch.Own): batch.Forward(1)} {
		if r := w.Submit(origin, genuine)[0]; r.Verdict != want {
			t.Errorf("origin %#x: %v, want %v", origin, r.Verdict, want)
		}
	}
	tunneled := func(src, dst string) []byte { return testutil.UDP4(src, dst, 1, 2, make([]byte, 40)...) }
	for _, c := range []struct {
		name           string
		frame          []byte
		quoted, strict batch.Verdict
	}{
		{"from a host of the tunnel about a packet of the tunnel", about(tunneled("10.1.0.9", "192.0.2.1"), "192.0.2.1"), batch.Forward(1), batch.Forward(1)},
		{"from a host of the tunnel about another connection", about(tunneled("10.1.0.9", "203.0.113.9"), "192.0.2.1"), batch.Forward(1), batch.Drop(batch.XfrmInNoPols)},
		{"from a host of the tunnel about a packet of another host", quoting(about(tunneled("10.1.0.9", "192.0.2.1"), "192.0.2.1"), tunneled("10.1.0.8", "192.0.2.1")), batch.Forward(1), batch.Drop(batch.XfrmInNoPols)},
		{"from a host of the tunnel, quoting nothing", about(tunneled("10.1.0.9", "192.0.2.1"), "192.0.2.1")[:14+28], batch.Forward(1), batch.Drop(batch.XfrmInNoPols)},
		{"from a router", about(tunneled("10.1.0.9", "192.0.2.1"), "203.0.113.1"), batch.Forward(1), batch.Forward(1)},
	} {
		if len(c.frame) == 14+28 {
			c.frame = testutil.Edit(c.frame, 2, 0, 28)
		}
		for strict, want := range map[bool]batch.Verdict{false: c.quoted, true: c.strict} {
			b, g, _ := secured(t, config(ipsec.In, false))
			g.StrictErrors = strict
			if r := b.Submit(wan, sealedByAPeer(t, c.frame))[0]; r.Verdict != want {
				t.Errorf("%s, strict %v: %v, want %v", c.name, strict, r.Verdict, want)
			}
		}
	}
}

// sealedByAPeer returns a frame in ESP of a peer whose policies protect everything.
func sealedByAPeer(t *testing.T, frame []byte) []byte {
	t.Helper()
	a, g, _ := secured(t, config(ipsec.Out, false))
	everything := policy.Policy{Action: policy.Protect, Target: g.Tunnel("b")}
	all4, all6 := everything, everything
	all4.Src, all4.Dst = prefix("0.0.0.0/0"), prefix("0.0.0.0/0")
	all6.Src, all6.Dst = prefix("::/0"), prefix("::/0")
	require.NoError(t, g.SetRules([]gateway.Rule{{Direction: ipsec.Out, Policy: all4}, {Direction: ipsec.Out, Policy: all6}}))
	r := a.Submit(0, frame)[0]
	if r.Verdict != batch.Forward(1) {
		t.Fatalf("the peer does not send % x: %v", frame, r.Verdict)
	}
	wire := bytes.Clone(a.Sent(r))
	copy(wire[:6], mac1)
	return wire
}

func TestICMPErrorsArriveByTheTunnelOfTheirQuote(t *testing.T) {
	from := func(src, dst string) []byte { return testutil.UDP4(src, dst, 1, 2, make([]byte, 40)...) }
	from6 := func(src, dst string) []byte { return testutil.UDP6(src, dst, 1, 2, make([]byte, 40)...) }
	for _, c := range []struct {
		name  string
		frame []byte
		want  batch.Verdict
	}{
		{"IPv4", about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), batch.Forward(1)},
		{"IPv6", about(from6("fd01::9", "2001:db8::1"), "2001:db8:f::1"), batch.Forward(1)},
		{"about a packet that no policy is for", about(from("10.1.0.9", "203.0.113.9"), "203.0.113.1"), batch.Drop(batch.XfrmInNoPols)},
		{"about a packet that is discarded", about(from("10.5.0.1", "192.0.2.1"), "203.0.113.1"), batch.Drop(batch.XfrmInPolBlock)},
		{"about a packet in plaintext", about(from("10.1.7.7", "192.0.2.1"), "203.0.113.1"), batch.Drop(batch.XfrmInTmplMismatch)},
		{"to another than the quoted source", testutil.Edit(about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), 16, 10, 13, 0, 9), batch.Drop(batch.XfrmInNoPols)},
		{"IPv6, to another than the quoted source", testutil.Edit(about(from6("fd01::9", "2001:db8::1"), "2001:db8:f::1"), 39, 8), batch.Drop(batch.XfrmInNoPols)},
		{"a redirect", testutil.Edit(about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), 20, 5), batch.Drop(batch.XfrmInNoPols)},
		{"source quench", testutil.Edit(about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), 20, 4), batch.Drop(batch.XfrmInNoPols)},
		{"longer than errors are", longer(about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), 577), batch.Drop(batch.XfrmInNoPols)},
		{"IPv6, longer than errors are", longer(about(from6("fd01::9", "2001:db8::1"), "2001:db8:f::1"), 1281), batch.Drop(batch.XfrmInNoPols)},
		{"IPv6, an error of no known type", testutil.Edit(about(from6("fd01::9", "2001:db8::1"), "2001:db8:f::1"), 40, 100), batch.Drop(batch.XfrmInNoPols)},
		{"IPv4 that quotes IPv6", quoting(about(from("10.1.0.9", "192.0.2.1"), "203.0.113.1"), from6("fd01::9", "2001:db8::1")), batch.Drop(batch.XfrmInNoPols)},
		{"no error", from("203.0.113.1", "10.1.0.9"), batch.Drop(batch.XfrmInNoPols)},
	} {
		b, _, _ := secured(t, config(ipsec.In, false))
		if r := b.Submit(2, sealedByAPeer(t, c.frame))[0]; r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
	}
}

func TestPlaintextICMPErrorsAboutProtectedPacketsAreDropped(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
		want  batch.Verdict
	}{
		{"IPv4, protected", about(testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1"), batch.Drop(batch.XfrmInTmplMismatch)},
		{"IPv6, protected", about(testutil.UDP6("fd01::9", "2001:db8::1", 1, 2, make([]byte, 40)...), "2001:db8:f::1"), batch.Drop(batch.XfrmInTmplMismatch)},
		{"bypassed", about(testutil.UDP4("10.1.7.7", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1"), batch.Forward(1)},
		{"of no policy", about(testutil.UDP4("10.1.0.9", "203.0.113.7", 1, 2, make([]byte, 40)...), "203.0.113.1"), batch.Forward(1)},
	} {
		w, _, _ := secured(t, config(ipsec.In, false))
		if r := w.Submit(wan, c.frame)[0]; r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
	}
}
