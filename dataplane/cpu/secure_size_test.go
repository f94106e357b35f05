package cpu

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// What is too large for the tunnel is dropped, untouched, with the size that fits.
func TestPacketsThatDoNotFitTheTunnel(t *testing.T) {
	for _, inner6 := range []bool{false, true} {
		frame := func(n int) []byte {
			if inner6 {
				return testutil.UDP6("2001:db8::1", "fd02::9", 1, 2, make([]byte, n-48)...)
			}
			return testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, n-28)...)
		}
		// By port 1, of 1500: 20 + 8 + 8 + 16 around a multiple of 4 less 2.
		const fits = (1500-20-8-8-16)&^3 - 2
		w, _, _ := secured(t, config(esp.Out, false))
		if r := w.submit(1, frame(fits))[0]; r.Verdict != batch.Forward(1) || int(r.Len) > 1514 {
			t.Errorf("%d bytes: %v, %d bytes", fits, r.Verdict, r.Len)
		}
		r := w.submit(1, frame(fits+1))[0]
		if r.Verdict != batch.Drop(batch.MTUExceeded) || r.Len != fits {
			t.Errorf("%d bytes: %v, and %d would fit", fits+1, r.Verdict, r.Len)
		}
		if !bytes.Equal(w.received(0), frame(fits+1)) {
			t.Error("the packet was changed")
		}
	}
}

// What fits a tunnel is what fits the route to its other end.
func TestATunnelHasTheMTUOfItsRoute(t *testing.T) {
	const fits = (1300-20-8-8-16)&^3 - 2
	w, _, _ := secured(t, config(esp.Out, false))
	hop := w.net.IPv4.Lookup(0x0a010909) // to the other gateway, by port 1, of 1500
	w.net.SetNextHopMTU(hop, 1300)
	w.net.Bump()
	for size, want := range map[int]batch.Verdict{fits: batch.Forward(1), fits + 1: batch.Drop(batch.MTUExceeded)} {
		r := w.submit(1, testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, size-28)...))[0]
		if r.Verdict != want || want.Action() == batch.ActionDrop && r.Len != fits {
			t.Errorf("%d bytes: %v, and %d would fit", size, r.Verdict, r.Len)
		}
	}
}

// Where the way to the other gateway is down or too narrow, no size is proposed that
// would not fit, and none that is not one.
func TestAWayThatNothingFits(t *testing.T) {
	for _, c := range []struct {
		dst  string
		mtu  uint16 // of port 1
		size int
		want batch.Verdict
	}{
		{"10.3.0.1", 1500, 68, batch.Drop(batch.PortDown)},
		{"10.1.9.9", 60, 68, batch.Drop(batch.XfrmOutError)},
	} {
		w, _, _ := secured(t, config(esp.Out, false), func(e *esp.Config) { e.Dst = netip.MustParseAddr(c.dst) })
		w.net.SetPort(1, 0x020000000011, c.mtu)
		w.net.Bump()
		if r := w.submit(1, to4("10.1.0.9"))[0]; r.Verdict != c.want || r.Len != 0 {
			t.Errorf("to %s by an MTU of %d: %v, and %d would fit", c.dst, c.mtu, r.Verdict, r.Len)
		}
	}
}

// In transport mode only whole packets are protected: one that is too large is
// protected first and cut then, if it may be.
func TestTransportModeDoesNotCutBefore(t *testing.T) {
	for _, df := range []byte{0, 0x40} {
		w, _, s := secured(t, config(esp.Out, false), func(c *esp.Config) { c.Mode = esp.Transport })
		frame := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.9.9", 1, 2, make([]byte, 1472)...), 6, df)
		r := w.submit(1, frame)[0]
		want := uint16(1500) // of the ESP packet
		if df != 0 {
			want = 1500 - 8 - 8 - 16 - 2 // of the packet that could be protected
		}
		if r.Verdict != batch.Drop(batch.MTUExceeded) || r.Len != want || (s.Sequence() == 1) != (df == 0) {
			t.Errorf("don't fragment %#x: %v, %d would fit, %d packets sealed", df, r.Verdict, r.Len, s.Sequence())
		}
	}
}

// What fits in transport mode depends on the headers that stay in front of ESP: its padding
// counts from behind them.
func TestTransportModeFitsBehindExtensionHeaders(t *testing.T) {
	w, _, _ := secured(t, config(esp.Out, true), func(c *esp.Config) {
		c.Mode, c.Suite, c.Key, c.AuthKey = esp.Transport, "aes128-sha1", bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{8}, 20)
	})
	for mtu := uint16(1400); mtu < 1416; mtu++ {
		w.net.SetPort(1, 0x020000000011, mtu)
		w.net.Bump()
		frame := func(size int) []byte {
			udp := testutil.UDP6("2001:db8::1", "fd01::f9", 1, 2, make([]byte, size-40-8-8)...)
			const at = packet.EthernetLen + packet.IPv6Len
			options := []byte{byte(packet.UDP), 0, 1, 4, 0, 0, 0, 0}
			p := bytes.Join([][]byte{udp[:at], options, udp[at:]}, nil)
			binary.BigEndian.PutUint16(p[packet.EthernetLen+4:], uint16(size-packet.IPv6Len))
			p[packet.EthernetLen+6] = byte(packet.DestOptions)
			return p
		}
		told := int(w.submit(1, frame(1500))[0].Len)
		for size, want := range map[int]batch.Verdict{told: batch.Forward(1), told + 1: batch.Drop(batch.MTUExceeded)} {
			if r := w.submit(1, frame(size))[0]; r.Verdict != want {
				t.Errorf("%d bytes by an MTU of %d, where %d are told to fit: %v", size, mtu, told, r.Verdict)
			}
		}
	}
}

// A SYN that goes into a tunnel announces no more than fits, with a checksum that is
// right also where the sender left it unfinished; and only where that is asked for.
func TestSegmentSizesAreClamped(t *testing.T) {
	for _, inner6 := range []bool{false, true} {
		syn := func(mss uint16) []byte {
			tcp := &layers.TCP{SrcPort: 1, DstPort: 2, SYN: true, Options: []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: binary.BigEndian.AppendUint16(nil, mss)}}}
			if inner6 {
				ip := testutil.IPv6("2001:db8::1", "fd01::9", layers.IPProtocolTCP)
				_ = tcp.SetNetworkLayerForChecksum(ip)
				return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), ip, tcp)
			}
			ip := testutil.IPv4("192.0.2.1", "10.1.0.9", layers.IPProtocolTCP)
			_ = tcp.SetNetworkLayerForChecksum(ip)
			return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), ip, tcp)
		}
		// By port 1, of 1500: 20 + 8 + 8 + 16 around a multiple of 4 less 2.
		fits := uint16((1500-20-8-8-16)&^3-2) - 20 - 20
		if inner6 {
			fits -= 20
		}
		for _, c := range []struct {
			clamp     bool
			sent, got uint16
		}{{true, 1460, fits}, {true, 1000, 1000}, {false, 1460, 1460}} {
			out, g, _ := secured(t, config(esp.Out, false))
			g.ClampMSS = c.clamp
			r := out.submit(1, syn(c.sent))[0]
			in, _, _ := secured(t, config(esp.In, false))
			wire := bytes.Clone(out.bytes(r))
			copy(wire[:6], mac1)
			r = in.submit(2, wire)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatal(r.Verdict)
			}
			want := syn(c.got)[packet.EthernetLen:]
			at := packet.IPv4Len
			if inner6 {
				at = packet.IPv6Len
			}
			if got := in.bytes(r)[packet.EthernetLen:]; !bytes.Equal(got[at:], want[at:len(got)]) { // without padding
				t.Errorf("clamp %v, %d announced:\n got  % x\n want % x", c.clamp, c.sent, got[at:], want[at:])
			}
		}
	}
}

// Where packets are cut after they were protected, one that is too large for the tunnel is
// protected whole if it may be cut at all.
func TestCuttingAfterProtecting(t *testing.T) {
	large := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1470)...)
	for _, c := range []struct {
		after bool
		frame []byte
		spi   bool
	}{{true, large, true}, {false, large, false}, {true, testutil.Edit(large, 6, 0x40), false}} {
		w, g, _ := secured(t, config(esp.Out, false))
		g.FragmentAfter = c.after
		r := w.submit(1, c.frame)[0]
		_, _, is := esp.Inbound(w.received(0)[packet.EthernetLen:])
		if r.Verdict != batch.Drop(batch.MTUExceeded) || is != c.spi {
			t.Errorf("after %v: %v, protected %v", c.after, r.Verdict, is)
		}
		if c.spi && r.Len != 1500 {
			t.Errorf("%d bytes fit, want the port's 1500", r.Len)
		}
	}
}

// A path that is narrower than the port counts instead: sources are told what fits it, and
// ESP that may be cut is. It is found anew when the generation of routes moves.
func TestPathsNarrowerThanThePort(t *testing.T) {
	const path, fits = 1300, (1300-20-8-8-16)&^3 - 2
	udp := func(n int, df byte) []byte {
		return testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, n-28)...), 6, df)
	}
	for _, c := range []struct {
		rule  string
		frame []byte
		after bool
		df    esp.DFPolicy
		want  batch.Verdict
		len   uint16
		spi   bool // it is ESP afterwards
	}{
		{"it fits", udp(fits, 0x40), false, esp.CopyDF, batch.Forward(1), 14 + 1300, true},
		{"it may not be cut", udp(fits+1, 0x40), true, esp.CopyDF, batch.Drop(batch.MTUExceeded), fits, false},
		{"to be cut before", udp(fits+1, 0), false, esp.CopyDF, batch.Drop(batch.MTUExceeded), fits, false},
		{"to be cut after", udp(fits+1, 0), true, esp.CopyDF, batch.Drop(batch.MTUExceeded), path, true},
		{"ESP that may not be cut is cut before", udp(fits+1, 0), true, esp.SetDF, batch.Drop(batch.MTUExceeded), fits, false},
	} {
		w, g, s := secured(t, config(esp.Out, false), func(e *esp.Config) { e.DF = c.df })
		g.FragmentAfter = c.after
		if r := w.submit(1, udp(1400, 0x40))[0]; r.Verdict != batch.Forward(1) {
			t.Fatalf("before the path is known: %v", r.Verdict)
		}
		s.SetPathMTU(path)
		w.net.Bump()
		r := w.submit(1, c.frame)[0]
		b := w.received(0)
		if r.Verdict == c.want && r.Verdict == batch.Forward(1) {
			b = w.bytes(r)
		}
		_, _, is := esp.Inbound(b[packet.EthernetLen:])
		if r.Verdict != c.want || r.Len > c.len || r.Len < c.len-3 || is != c.spi {
			t.Errorf("%s: %v, %d bytes, protected %v; want %v, %d", c.rule, r.Verdict, r.Len, is, c.want, c.len)
		}
		if secured := w.chunk.In[0].Port&batch.Secured != 0; secured != c.spi {
			t.Errorf("%s: it counts as protected: %v", c.rule, secured)
		}
		s.SetPathMTU(0)
		w.net.Bump()
		if r := w.submit(1, udp(1400, 0x40))[0]; r.Verdict != batch.Forward(1) {
			t.Errorf("%s: after the path is forgotten: %v", c.rule, r.Verdict)
		}
	}
}

// An IPv6 packet that every way must carry is protected where it does not fit, and the ESP
// packet is the router's to fragment, whatever carries it.
func TestWhatEveryWayMustCarryIsCutAsESP(t *testing.T) {
	const path = 1300
	for _, outer6 := range []bool{false, true} {
		w, _, s := secured(t, config(esp.Out, outer6))
		s.SetPathMTU(path)
		frame := testutil.UDP6("2001:db8::1", "fd01::9", 1, 2, make([]byte, minMTUIPv6-48)...)
		r := w.submit(1, frame)[0]
		p := w.received(0)[packet.EthernetLen:]
		if _, _, is := esp.Inbound(p); r != (batch.Result{Addr: batch.MayCut, Len: path, Verdict: batch.Drop(batch.MTUExceeded)}) || !is {
			t.Errorf("outer IPv6 %v: %+v, protected %v", outer6, r, is)
		}
		if h := (*packet.IPv4)(p); !outer6 && (p[6]&0x40 != 0 || !h.ChecksumOK()) {
			t.Errorf("the packet may not be fragmented: % x", p[:packet.IPv4Len])
		}
		w, _, s = secured(t, config(esp.Out, outer6))
		s.SetPathMTU(path)
		frame = testutil.UDP6("2001:db8::1", "fd01::9", 1, 2, make([]byte, minMTUIPv6-48+1)...)
		if r := w.submit(1, frame)[0]; r != (batch.Result{Len: minMTUIPv6, Verdict: batch.Drop(batch.MTUExceeded)}) {
			t.Errorf("outer IPv6 %v, a byte more: %+v", outer6, r)
		}
	}
}

// A packet that came out of one tunnel and is too large for the next is cut, and its
// fragments have come as the inbound policies demand, though they say so of themselves only
// by their mark.
func TestWhatIsCutBetweenTunnelsHasEntered(t *testing.T) {
	a, _, _ := secured(t, config(esp.Out, false))
	r := a.submit(0, testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1400)...))[0]
	wire := bytes.Clone(a.bytes(r))
	copy(wire[:6], mac1)
	b, g, in := secured(t, config(esp.In, false))
	c := config(esp.Out, false)
	c.Bundle, c.Dst = g.Bundle("next"), netip.MustParseAddr("10.1.9.8")
	out, err := esp.NewSA(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(out); err != nil {
		t.Fatal(err)
	}
	protect := policy.Policy{Src: prefix("192.0.2.0/24"), Dst: prefix("10.1.0.0/16"), Action: policy.Protect}
	arrives, leaves := protect, protect
	arrives.Target, leaves.Target = in.Bundle(), out.Bundle()
	if err := g.SetRules([]gateway.Rule{{Direction: esp.In, Policy: arrives}, {Direction: esp.Out, Policy: leaves}}); err != nil {
		t.Fatal(err)
	}
	out.SetPathMTU(1400)
	if r := b.submit(2, wire)[0]; r.Verdict != batch.Drop(batch.MTUExceeded) || r.Len == 0 {
		t.Fatalf("%+v", r)
	}
	mark := b.chunk.In[0].Port // which the fragments have, too
	fragment := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 800)...), 6, 0x20)
	if r := b.submit(mark, fragment)[0]; r.Verdict != batch.Forward(1) || out.Sequence() != 1 {
		t.Errorf("a fragment: %v, %d packets sealed", r.Verdict, out.Sequence())
	}
	if r := b.submit(2, fragment)[0]; r.Verdict != batch.Drop(batch.XfrmInTmplMismatch) {
		t.Errorf("a fragment that came in clear: %v", r.Verdict)
	}
}

// What came out of a tunnel in a large frame, and is short by now, has room there for the
// next tunnel.
func TestAShortPacketInALargeFrameHasRoom(t *testing.T) {
	const from = 512 * umem.FrameSize // half of the world's memory is of large frames
	frame := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1400)...)
	w, _, _ := secured(t, config(esp.Out, false))
	w.engine.LargeFrom(from)
	addr := uint32(from + umem.FrameSize - len(frame)) // it ends where a frame of the usual size does
	copy(w.mem.Bytes()[addr:], frame)
	w.chunk.In[0], w.chunk.Out[0], w.chunk.N = batch.Frame{Addr: addr, Len: uint16(len(frame)), Port: 1}, batch.Result{}, 1
	w.engine.Submit(w.chunk)
	if r := w.chunk.Out[0]; r.Verdict != batch.Forward(1) || r.Addr/umem.LargeSize != from/umem.LargeSize {
		t.Errorf("%+v", r)
	}
}

// An error that is too large for its tunnel is fragmented behind ESP: fragments of the error itself
// would leave in clear, as they do not show what it quotes.
func TestLargeErrorsAreProtectedWhole(t *testing.T) {
	for _, outer6 := range []bool{false, true} {
		w, _, s := secured(t, config(esp.Out, outer6))
		behind(w)
		s.SetPathMTU(500)
		genuine := about(testutil.UDP4("10.1.0.9", "192.0.2.1", 1, 2, make([]byte, 40)...), "203.0.113.1")
		r := w.submit(lan, longer(genuine, 570))[0]
		f := w.chunk.In[0]
		_, _, is := esp.Inbound(w.received(0)[packet.EthernetLen:])
		if r.Verdict != batch.Drop(batch.MTUExceeded) || r.Addr != batch.MayCut || f.Port&batch.Secured == 0 || !is {
			t.Errorf("outer IPv6 %v: %v, port %#x, ESP %v", outer6, r.Verdict, f.Port, is)
		}
	}
}
