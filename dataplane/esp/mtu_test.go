package esp_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// The drop reports the MTU of the tunnel and leaves the packet unchanged.
func TestPacketsLargerThanTheTunnelAreDropped(t *testing.T) {
	for _, inner6 := range []bool{false, true} {
		frame := func(n int) []byte {
			if inner6 {
				return testutil.UDP6("2001:db8::1", "fd02::9", 1, 2, make([]byte, n-48)...)
			}
			return testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, n-28)...)
		}
		// By port 1, of 1500: 20 + 8 + 8 + 16 around a multiple of 4 less 2.
		const fits = (1500-20-8-8-16)&^3 - 2
		w, _, _ := secured(t, config(ipsec.Out, false))
		if r := w.Submit(1, frame(fits))[0]; r.Verdict != batch.Forward(1) || r.Len() > 1514 {
			t.Errorf("%d bytes: %v, %d bytes", fits, r.Verdict, r.Len())
		}
		r := w.Submit(1, frame(fits+1))[0]
		if r.Verdict != batch.Drop(batch.MTUExceeded) || r.MTU() != fits {
			t.Errorf("%d bytes: %v, and %d would fit", fits+1, r.Verdict, r.MTU())
		}
		if !bytes.Equal(w.Received(0), frame(fits+1)) {
			t.Error("the packet was changed")
		}
	}
}

// Ports with a larger MTU receive packets of up to 1,776 bytes into small frames, where no ICV fits behind them.
func TestPacketsThatFillTheirFrameAreEncrypted(t *testing.T) {
	for size := umem.MaxMTU - 70; size <= umem.MaxMTU; size++ {
		w, _, _ := secured(t, config(ipsec.Out, false))
		w.Net.SetPort(1, 0x020000000011, 9000)
		w.Net.Commit()
		r := w.Submit(1, testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, size-28)...))[0]
		if r.Verdict != batch.Forward(1) || int(r.Len()) < size+packet.EthernetLen+20+8+8+16 {
			t.Errorf("%d bytes: %v, %d bytes", size, r.Verdict, r.Len())
		}
	}
}

func TestTunnelHasTheMTUOfItsRoute(t *testing.T) {
	const fits = (1300-20-8-8-16)&^3 - 2
	w, _, _ := secured(t, config(ipsec.Out, false))
	hop := w.Net.IPv4.Lookup(0x0a010909) // to the other gateway, by port 1, of 1500
	w.Net.SetNextHopMTU(hop, 1300)
	w.Net.Commit()
	for size, want := range map[int]batch.Verdict{fits: batch.Forward(1), fits + 1: batch.Drop(batch.MTUExceeded)} {
		r := w.Submit(1, testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, size-28)...))[0]
		if r.Verdict != want || want.Action() == batch.ActionDrop && r.MTU() != fits {
			t.Errorf("%d bytes: %v, and %d would fit", size, r.Verdict, r.MTU())
		}
	}
}

// No MTU is reported where the route of the tunnel is down or carries no packet.
func TestPathTooNarrowForAnyPacket(t *testing.T) {
	for _, c := range []struct {
		dst  string
		mtu  uint16 // of port 1
		size int
		want batch.Verdict
	}{
		{"10.3.0.1", 1500, 68, batch.Drop(batch.PortDown)},
		{"10.1.9.9", 60, 68, batch.Drop(batch.XfrmOutError)},
	} {
		w, _, _ := secured(t, config(ipsec.Out, false), func(e *ipsec.Config) { e.Dst = netip.MustParseAddr(c.dst) })
		w.Net.SetPort(1, 0x020000000011, c.mtu)
		w.Net.Commit()
		if r := w.Submit(1, to4("10.1.0.9"))[0]; r.Verdict != c.want || r.MTU() != 0 {
			t.Errorf("to %s by an MTU of %d: %v, and %d would fit", c.dst, c.mtu, r.Verdict, r.MTU())
		}
	}
}

// The MTU depends on the headers that stay in front of ESP: its padding counts from behind them.
func TestTransportModeMTUWithExtensionHeaders(t *testing.T) {
	w, _, _ := secured(t, config(ipsec.Out, true), func(c *ipsec.Config) {
		c.Mode, c.Suite, c.Key, c.AuthKey = ipsec.Transport, "aes128-sha1", bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{8}, 20)
	})
	for mtu := uint16(1400); mtu < 1416; mtu++ {
		w.Net.SetPort(1, 0x020000000011, mtu)
		w.Net.Commit()
		frame := func(size int) []byte {
			udp := testutil.UDP6("2001:db8::1", "fd01::f9", 1, 2, make([]byte, size-40-8-8)...)
			const at = packet.EthernetLen + packet.IPv6Len
			options := []byte{byte(packet.UDP), 0, 1, 4, 0, 0, 0, 0}
			p := bytes.Join([][]byte{udp[:at], options, udp[at:]}, nil)
			binary.BigEndian.PutUint16(p[packet.EthernetLen+4:], uint16(size-packet.IPv6Len))
			p[packet.EthernetLen+6] = byte(packet.DestOptions)
			return p
		}
		reported := int(w.Submit(1, frame(1500))[0].MTU())
		for size, want := range map[int]batch.Verdict{reported: batch.Forward(1), reported + 1: batch.Drop(batch.MTUExceeded)} {
			if r := w.Submit(1, frame(size))[0]; r.Verdict != want {
				t.Errorf("%d bytes by an MTU of %d, where %d are reported to fit: %v", size, mtu, reported, r.Verdict)
			}
		}
	}
}

// The MSS of a SYN is lowered on request, with a correct checksum.
func TestMSSIsClamped(t *testing.T) {
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
			out, g, _ := secured(t, config(ipsec.Out, false))
			g.ClampMSS = c.clamp
			r := out.Submit(1, syn(c.sent))[0]
			in, _, _ := secured(t, config(ipsec.In, false))
			wire := bytes.Clone(out.Sent(r))
			copy(wire[:6], mac1)
			r = in.Submit(2, wire)[0]
			if r.Verdict != batch.Forward(1) {
				t.Fatal(r.Verdict)
			}
			want := syn(c.got)[packet.EthernetLen:]
			at := packet.IPv4Len
			if inner6 {
				at = packet.IPv6Len
			}
			if got := in.Sent(r)[packet.EthernetLen:]; !bytes.Equal(got[at:], want[at:len(got)]) { // without padding
				t.Errorf("clamp %v, %d announced:\n got  % x\n want % x", c.clamp, c.sent, got[at:], want[at:])
			}
		}
	}
}

// A path MTU below the MTU of the port is reported to sources, and ESP is fragmented by it.
func TestPathMTUBelowThePortMTU(t *testing.T) {
	const path, fits = 1300, (1300-20-8-8-16)&^3 - 2
	udp := func(n int, df byte) []byte {
		return testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, n-28)...), 6, df)
	}
	for _, c := range []struct {
		rule  string
		frame []byte
		after bool
		df    ipsec.DFPolicy
		want  batch.Verdict
		len   uint16
		spi   bool // it is ESP afterwards
	}{
		{"it fits", udp(fits, 0x40), false, ipsec.CopyDF, batch.Forward(1), 14 + 1300, true},
		{"it may not be cut", udp(fits+1, 0x40), true, ipsec.CopyDF, batch.Drop(batch.MTUExceeded), fits, false},
		{"to be cut before", udp(fits+1, 0), false, ipsec.CopyDF, batch.Drop(batch.MTUExceeded), fits, false},
		{"to be cut after", udp(fits+1, 0), true, ipsec.CopyDF, batch.Drop(batch.MTUExceeded), path, true},
		{"ESP that may not be cut is cut before", udp(fits+1, 0), true, ipsec.SetDF, batch.Drop(batch.MTUExceeded), fits, false},
	} {
		w, g, s := secured(t, config(ipsec.Out, false), func(e *ipsec.Config) { e.DF = c.df })
		g.FragmentAfter = c.after
		if r := w.Submit(1, udp(1400, 0x40))[0]; r.Verdict != batch.Forward(1) {
			t.Fatalf("before the path is known: %v", r.Verdict)
		}
		s.SetPathMTU(path)
		w.Net.Commit()
		r := w.Submit(1, c.frame)[0]
		b := w.Received(0)
		if r.Verdict == c.want && r.Verdict == batch.Forward(1) {
			b = w.Sent(r)
		}
		_, _, is := ipsec.Inbound(b[packet.EthernetLen:])
		if r.Verdict != c.want || r.Len() > c.len || r.Len() < c.len-3 || is != c.spi {
			t.Errorf("%s: %v, %d bytes, protected %v; want %v, %d", c.rule, r.Verdict, r.Len(), is, c.want, c.len)
		}
		if secured := w.Chunk.In[0].Origin.Has(batch.PolicyDone); secured != c.spi {
			t.Errorf("%s: it counts as protected: %v", c.rule, secured)
		}
		s.SetPathMTU(0)
		w.Net.Commit()
		if r := w.Submit(1, udp(1400, 0x40))[0]; r.Verdict != batch.Forward(1) {
			t.Errorf("%s: after the path is forgotten: %v", c.rule, r.Verdict)
		}
	}
}

func TestShortPacketInLargeFrameIsProtected(t *testing.T) {
	const from = 512 * umem.FrameSize // half of the world's memory is of large frames
	frame := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1400)...)
	w, g, _ := secured(t, config(ipsec.Out, false))
	w.Engine.LargeFrom(from)
	w.Engine.Secure(g, 1)
	addr := uint32(from + umem.FrameSize - len(frame)) // it ends where a frame of the usual size does
	copy(w.Mem.Bytes()[addr:], frame)
	w.Chunk.In[0], w.Chunk.Out[0], w.Chunk.N = batch.Frame{Addr: addr, Len: uint16(len(frame)), Origin: 1}, batch.Result{}, 1
	w.Engine.Submit(w.Chunk)
	if r := w.Chunk.Out[0]; r.Verdict != batch.Forward(1) || r.Addr()/umem.LargeSize != from/umem.LargeSize {
		t.Errorf("%+v", r)
	}
}
