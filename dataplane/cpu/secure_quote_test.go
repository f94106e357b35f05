package cpu

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/icmp"
)

// about is an ICMP error from an address, in a frame, about a packet in one.
func about(offending []byte, from string) []byte {
	f := make([]byte, 600)
	copy(f, offending[:packet.EthernetLen])
	n := icmp.Build(f[packet.EthernetLen:], offending[packet.EthernetLen:], icmp.Error{Cause: icmp.TimeExceeded}, netip.MustParseAddr(from), 1)
	return f[:packet.EthernetLen+n]
}

// What a router has to say of a packet that came protected, and quotes it for that,
// does not go back in clear, whatever address it says it from.
func TestErrorsAreProtectedAsWhatTheyQuote(t *testing.T) {
	protected4 := testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...)
	protected6 := testutil.UDP6("fd01::9", "2001:db8::1", 1, 2, make([]byte, 40)...)
	echo4 := testutil.Edit(testutil.Edit(protected4, 9, 1), 20, 8)
	fragment6 := testutil.Edit(testutil.Edit(protected6, 6, 44), 40, 60, 0, 0, 8)
	transport := func(c *esp.Config) { c.Mode = esp.Transport }
	for _, c := range []struct {
		name   string
		frame  []byte
		alter  []func(*esp.Config)
		want   batch.Verdict
		sealed bool
	}{
		{"IPv4", about(protected4, "203.0.113.1"), nil, batch.Forward(1), true},
		{"IPv6", about(protected6, "2001:db8:f::1"), nil, batch.Forward(1), true},
		{"about an echo request", about(echo4, "203.0.113.1"), nil, batch.Forward(1), true},
		{"about an IPv6 fragment", about(fragment6, "2001:db8:f::1"), nil, batch.Forward(1), true},
		{"about a packet that came in clear", about(testutil.UDP4("10.1.0.9", "203.0.113.9", 1, 2, make([]byte, 40)...), "203.0.113.1"), nil, batch.Forward(1), false},
		{"an echo reply", testutil.Edit(testutil.UDP4("203.0.113.1", "10.1.0.9", 0, 0, about(protected4, "203.0.113.1")[14:]...), 9, 1), nil, batch.Forward(1), false},
		{"in transport mode", about(protected4, "203.0.113.1"), []func(*esp.Config){transport}, batch.Drop(batch.XfrmOutStateModeError), false},
	} {
		for _, mark := range []uint16{0, batch.Own} {
			w, _, s := secured(t, config(esp.Out, false), c.alter...)
			r := w.submit(1|mark, c.frame)[0]
			if r.Verdict != c.want || (s.Sequence() == 1) != c.sealed {
				t.Errorf("%s: %v, %d packets sealed", c.name, r.Verdict, s.Sequence())
			}
			if r.Verdict.Action() != batch.ActionForward {
				continue
			}
			if _, _, is := esp.Inbound(w.bytes(r)[packet.EthernetLen:]); is != c.sealed {
				t.Errorf("%s: % x leaves", c.name, w.bytes(r))
			}
		}
	}
}

// An error comes out of a tunnel if an answer to what it quotes may, whoever it is from, and
// nothing else does for which there is no policy.
func TestErrorsArriveAsWhatTheyQuote(t *testing.T) {
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
		{"about a packet in clear", about(from("10.1.7.7", "192.0.2.1"), "203.0.113.1"), batch.Drop(batch.XfrmInTmplMismatch)},
		{"no error", from("203.0.113.1", "10.1.0.9"), batch.Drop(batch.XfrmInNoPols)},
	} {
		a, g, _ := secured(t, config(esp.Out, false))
		everything := policy.Policy{Action: policy.Protect, Target: g.Bundle("b")}
		all4, all6 := everything, everything
		all4.Src, all4.Dst = prefix("0.0.0.0/0"), prefix("0.0.0.0/0")
		all6.Src, all6.Dst = prefix("::/0"), prefix("::/0")
		if err := g.SetRules([]gateway.Rule{{Direction: esp.Out, Policy: all4}, {Direction: esp.Out, Policy: all6}}); err != nil {
			t.Fatal(err)
		}
		r := a.submit(0, c.frame)[0]
		if r.Verdict != batch.Forward(1) {
			t.Fatalf("%s: %v", c.name, r.Verdict)
		}
		wire := bytes.Clone(a.bytes(r))
		copy(wire[:6], mac1)
		b, _, _ := secured(t, config(esp.In, false))
		if r := b.submit(2, wire)[0]; r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
	}
}
