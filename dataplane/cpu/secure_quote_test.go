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

// behind has the hosts that config's policies protect be reached by port 2. Port 1 leads to the peer.
func behind(w *world) {
	w.net.Route(w.net.IPv4.Lookup(0x0a020001), "192.0.2.0/24")
	w.net.Route(w.net.IPv6.Lookup(netip.MustParseAddr("fd02::1").As16()), "2001:db8::/64")
}

const wan, lan = 1, 2 // ports

// What a router has to say of a packet that came protected, and quotes it for that,
// does not go back in clear, whatever address it says it from; and nobody else has the
// gateway send such errors into the tunnel.
func TestErrorsAreProtectedAsWhatTheyQuote(t *testing.T) {
	protected4 := testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...)
	protected6 := testutil.UDP6("fd01::9", "2001:db8::1", 1, 2, make([]byte, 40)...)
	echo4 := testutil.Edit(testutil.Edit(protected4, 9, 1), 20, 8)
	fragment6 := testutil.Edit(testutil.Edit(protected6, 6, 44), 40, 60, 0, 0, 8)
	transport := func(c *esp.Config) { c.Mode = esp.Transport }
	genuine4, genuine6 := about(protected4, "203.0.113.1"), about(protected6, "2001:db8:f::1")
	refused := batch.Drop(batch.XfrmOutPolBlock)
	for _, c := range []struct {
		name         string
		frame        []byte
		alter        []func(*esp.Config)
		own, in, out batch.Verdict // if the router made it, it came from the protected side, or from the other
		sealed       bool          // what is forwarded
	}{
		{"IPv4", genuine4, nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"IPv6", genuine6, nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about an echo request", about(echo4, "203.0.113.1"), nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about an IPv6 fragment", about(fragment6, "2001:db8:f::1"), nil, batch.Forward(1), batch.Forward(1), refused, true},
		{"about a packet that came in clear", about(testutil.UDP4("10.1.0.9", "203.0.113.9", 1, 2, make([]byte, 40)...), "203.0.113.1"), nil, batch.Forward(1), batch.Forward(1), batch.Forward(1), false},
		{"an echo reply", testutil.Edit(testutil.UDP4("203.0.113.1", "10.1.0.9", 0, 0, about(protected4, "203.0.113.1")[14:]...), 9, 1), nil, batch.Forward(1), batch.Forward(1), batch.Forward(1), false},
		{"in transport mode", genuine4, []func(*esp.Config){transport}, batch.Drop(batch.XfrmOutStateModeError), batch.Drop(batch.XfrmOutStateModeError), refused, false},
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
		for mark, want := range map[uint16]batch.Verdict{lan: c.in, wan: c.out, wan | batch.Own: c.own} {
			w, _, s := secured(t, config(esp.Out, false), c.alter...)
			behind(w)
			r := w.submit(mark, c.frame)[0]
			sealed := c.sealed && want == batch.Forward(1)
			if r.Verdict != want || (s.Sequence() == 1) != sealed {
				t.Errorf("%s, by port %#x: %v, want %v; %d packets sealed", c.name, mark, r.Verdict, want, s.Sequence())
			}
			if r.Verdict.Action() != batch.ActionForward {
				continue
			}
			if _, _, is := esp.Inbound(w.bytes(r)[packet.EthernetLen:]); is != sealed {
				t.Errorf("%s: % x leaves", c.name, w.bytes(r))
			}
		}
	}
}

// longer is a packet filled up to a length, without the link's header.
func longer(frame []byte, n int) []byte {
	f := append(bytes.Clone(frame), make([]byte, n-(len(frame)-packet.EthernetLen))...)
	if f[packet.EthernetLen]>>4 == 4 {
		return testutil.Edit(f, 2, byte(n>>8), byte(n))
	}
	return testutil.Edit(f, 4, byte((n-packet.IPv6Len)>>8), byte(n-packet.IPv6Len))
}

// quoting is an ICMP error with another quotation.
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

// A strict gateway sends only its own errors into a tunnel because of what they quote, and every error
// that comes out of one has to quote a packet of that tunnel, whatever its addresses are.
func TestStrictGatewaysReadEveryQuotation(t *testing.T) {
	w, g, _ := secured(t, config(esp.Out, false))
	behind(w)
	g.StrictErrors = true
	genuine := about(testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1")
	for port, want := range map[uint16]batch.Verdict{lan: batch.Drop(batch.XfrmOutPolBlock), wan: batch.Drop(batch.XfrmOutPolBlock), wan | batch.Own: batch.Forward(1)} {
		if r := w.submit(port, genuine)[0]; r.Verdict != want {
			t.Errorf("by port %#x: %v, want %v", port, r.Verdict, want)
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
			b, g, _ := secured(t, config(esp.In, false))
			g.StrictErrors = strict
			if r := b.submit(wan, sealedByAPeer(t, c.frame))[0]; r.Verdict != want {
				t.Errorf("%s, strict %v: %v, want %v", c.name, strict, r.Verdict, want)
			}
		}
	}
}

// sealedByAPeer is a frame as it arrives from a tunnel's other end that may send anything.
func sealedByAPeer(t *testing.T, frame []byte) []byte {
	t.Helper()
	a, g, _ := secured(t, config(esp.Out, false))
	everything := policy.Policy{Action: policy.Protect, Target: g.Bundle("b")}
	all4, all6 := everything, everything
	all4.Src, all4.Dst = prefix("0.0.0.0/0"), prefix("0.0.0.0/0")
	all6.Src, all6.Dst = prefix("::/0"), prefix("::/0")
	if err := g.SetRules([]gateway.Rule{{Direction: esp.Out, Policy: all4}, {Direction: esp.Out, Policy: all6}}); err != nil {
		t.Fatal(err)
	}
	r := a.submit(0, frame)[0]
	if r.Verdict != batch.Forward(1) {
		t.Fatalf("the peer does not send % x: %v", frame, r.Verdict)
	}
	wire := bytes.Clone(a.bytes(r))
	copy(wire[:6], mac1)
	return wire
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
		b, _, _ := secured(t, config(esp.In, false))
		if r := b.submit(2, sealedByAPeer(t, c.frame))[0]; r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
	}
}

// An error about a packet that left protected may not come in clear: no router on the way saw that
// packet. Whoever forges one does not lower what hosts send through a tunnel.
func TestErrorsInClearAreNotAboutProtectedPackets(t *testing.T) {
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
		w, _, _ := secured(t, config(esp.In, false))
		if r := w.submit(wan, c.frame)[0]; r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
	}
}
