package gen

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
)

// sample is a frame of flow 3 with sequence number 77.
func sample(t testing.TB, ipv6 bool) []byte {
	t.Helper()
	tr := testTraffic(4)
	if ipv6 {
		tr.Src, tr.Dst = netip.MustParsePrefix("fd07::2/128"), netip.MustParsePrefix("fd08::2/128")
	}
	tr.SrcMAC, tr.Size = testMAC, 101
	ts := newTemplates(&tr, 0xabcd)
	frame := make([]byte, 97)
	copy(frame[ts.head:], ts.fill)
	ts.write(frame, 3, 0, 77, 0x123456789abc)
	return frame
}

func TestReadDecodesProbes(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		p, kind := read(sample(t, ipv6))
		if want := (probe{run: 0xabcd, flow: 3, seq: 77, sent: 0x123456789abc}); kind != intact || p != want {
			t.Errorf("IPv6 %v: kind %d, %+v", ipv6, kind, p)
		}
	}
}

func TestReadDetectsEveryFlippedBit(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		frame := sample(t, ipv6)
		for bit := 14 * 8; bit < len(frame)*8; bit++ {
			if at := bit / 8; ipv6 && (at < 18 || at == 21) {
				continue // version, class, label, hop limit: IPv6 has no checksum for them
			}
			frame[bit/8] ^= 1 << (bit % 8)
			if _, kind := read(frame); kind == intact {
				t.Errorf("IPv6 %v: bit %d of byte %d is flipped, and the frame is taken for intact", ipv6, bit%8, bit/8)
			}
			frame[bit/8] ^= 1 << (bit % 8)
		}
		for n := range len(frame) {
			if _, kind := read(frame[:n]); kind == intact {
				t.Errorf("IPv6 %v: the first %d bytes of %d are taken for intact", ipv6, n, len(frame))
			}
		}
	}
}

func TestReadAcceptsRoutedFrames(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		frame := sample(t, ipv6)
		copy(frame, []byte{2, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 2})
		if ipv6 {
			frame[21]--
		} else {
			frame[22]--
			frame[24]++ // the checksum, for 0x100 less
		}
		if _, kind := read(frame); kind != intact {
			t.Errorf("IPv6 %v: a routed frame is of kind %d", ipv6, kind)
		}
	}
}

func TestReadRejectsForeignFrames(t *testing.T) {
	data := make([]byte, 40)
	fragment := testutil.IPv4("10.0.0.1", "10.0.0.2", layers.IPProtocolUDP)
	fragment.FragOffset = 5
	for name, frame := range map[string][]byte{
		"nothing":                  nil,
		"ARP":                      append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6}, data...),
		"UDP to another port":      testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, 53, data...),
		"UDP to our port":          testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, udpPort, data...),
		"UDP to our port, IPv6":    testutil.UDP6("fd07::1", "fd08::1", 4000, udpPort, data...),
		"TCP":                      testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), testutil.IPv4("10.0.0.1", "10.0.0.2", layers.IPProtocolTCP), &layers.TCP{DstPort: udpPort}),
		"a fragment":               testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), fragment),
		"a short packet, IPv6":     testutil.UDP6("fd07::1", "fd08::1", 4000, udpPort),
		"UDP with an odd data end": testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, 53, data[:39]...),
	} {
		if _, kind := read(frame); kind != unknown {
			t.Errorf("%s is of kind %d", name, kind)
		}
	}
}

func TestAge(t *testing.T) {
	for _, tt := range []struct {
		sent uint64
		now  time.Duration
		want uint64
		ok   bool
	}{
		{100, 350, 250, true},
		{100, 100, 0, true},
		{timeMask - 9, timeMask + 1 + 20, 30, true}, // wrapped
		{350, 100, 0, false},                        // in the future
	} {
		p := probe{sent: tt.sent}
		if got, ok := p.age(tt.now); ok != tt.ok || ok && got != tt.want {
			t.Errorf("sent at %d, seen at %d: %d, %v", tt.sent, tt.now, got, ok)
		}
	}
}

// FuzzRead reads any bytes: read must not panic or return unverified contents.
func FuzzRead(f *testing.F) {
	f.Add(sample(f, false))
	f.Add(sample(f, true))
	f.Add(testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, udpPort, make([]byte, 18)...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := bytes.Clone(frame)
		p, kind := read(frame)
		if !bytes.Equal(before, frame) {
			t.Error("read changed the frame")
		}
		if kind != intact && p != (probe{}) {
			t.Errorf("kind %d with a probe: %+v", kind, p)
		}
		if p.sent > timeMask || p.run > 0xffff {
			t.Errorf("numbers beyond their fields: %+v", p)
		}
	})
}
