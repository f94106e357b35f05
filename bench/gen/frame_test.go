package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
)

// capture sends packets and returns the frames.
func capture(t *testing.T, tr Traffic, count uint64) (frames [][]byte) {
	t.Helper()
	w := newWire()
	w.fault = func(_ int, f []byte, _ func([]byte)) { frames = append(frames, bytes.Clone(f)) }
	mustRun(t, memoryPort(t, "tx", end{out: w}), nil, tr, Options{Count: count})
	if uint64(len(frames)) != count {
		t.Fatalf("%d frames were sent, want %d", len(frames), count)
	}
	return frames
}

// gopacket decodes each frame and serializes it with its own lengths and checksums.
func TestFramesAgreeWithGopacket(t *testing.T) {
	four := Traffic{Src: netip.MustParsePrefix("10.7.0.0/24"), Dst: netip.MustParsePrefix("10.8.0.0/16"), Flows: 70}
	six := Traffic{Src: netip.MustParsePrefix("fd07::/64"), Dst: netip.MustParsePrefix("fd08::/32"), Flows: 70}
	for _, tr := range []Traffic{four, six} {
		tr.DstMAC, tr.SrcMAC = testMAC, net.HardwareAddr{2, 0, 0, 0, 0, 9}
		least := leastSize(tr.ipv6())
		sizes := []int{0, least + 1, 127, 128, 512, 1517, 1518}
		for _, tr.Size = range sizes {
			t.Run(fmt.Sprintf("%v size %d", tr.Dst, tr.Size), func(t *testing.T) {
				want := map[int]int{max(tr.Size, least) - fcsLen: 300}
				checkFrames(t, tr, capture(t, tr, 300), want)
			})
		}
		tr.Size, tr.IMIX = 0, true
		t.Run(fmt.Sprintf("%v IMIX", tr.Dst), func(t *testing.T) {
			checkFrames(t, tr, capture(t, tr, 1200), map[int]int{least - fcsLen: 700, 590: 400, 1514: 100})
		})
	}
}

func checkFrames(t *testing.T, tr Traffic, frames [][]byte, wantLengths map[int]int) {
	lengths, seqs := map[int]int{}, map[uint32]uint32{}
	for i, f := range frames {
		lengths[len(f)]++
		p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
		if p.ErrorLayer() != nil {
			t.Fatalf("frame %d: %v", i, p.ErrorLayer().Error())
		}
		var again []gopacket.SerializableLayer
		for _, l := range p.Layers() {
			again = append(again, l.(gopacket.SerializableLayer))
		}
		if len(again) != 4 {
			t.Fatalf("frame %d has %d layers: %v", i, len(again), p)
		}
		// Checksums are computed where these are taken away.
		switch ip := again[1].(type) {
		case *layers.IPv4:
			ip.Checksum = 0
			checkHosts(t, tr, ip.SrcIP, ip.DstIP)
		case *layers.IPv6:
			checkHosts(t, tr, ip.SrcIP, ip.DstIP)
		}
		again[2].(*layers.UDP).Checksum = 0
		if want := testutil.Frame(again...); !bytes.Equal(f, want) {
			t.Fatalf("frame %d:\n got % x\nwant % x", i, f, want)
		}
		eth := again[0].(*layers.Ethernet)
		if !bytes.Equal(eth.DstMAC, tr.DstMAC) || !bytes.Equal(eth.SrcMAC, tr.SrcMAC) {
			t.Fatalf("frame %d goes from %v to %v", i, eth.SrcMAC, eth.DstMAC)
		}
		payload := again[3].(*gopacket.Payload).LayerContents()
		flow, seq := binary.BigEndian.Uint32(payload[4:]), binary.BigEndian.Uint32(payload[8:])
		if flow != uint32(i%tr.Flows) || seq != seqs[flow] || again[2].(*layers.UDP).SrcPort != layers.UDPPort(1024+flow) {
			t.Fatalf("frame %d is number %d of flow %d", i, seq, flow)
		}
		seqs[flow]++
	}
	if fmt.Sprint(lengths) != fmt.Sprint(wantLengths) {
		t.Errorf("frames by length in memory: %v, want %v", lengths, wantLengths)
	}
}

func checkHosts(t *testing.T, tr Traffic, src, dst net.IP) {
	t.Helper()
	for _, x := range []struct {
		in   netip.Prefix
		addr net.IP
	}{{tr.Src, src}, {tr.Dst, dst}} {
		a, _ := netip.AddrFromSlice(x.addr)
		if a = a.Unmap(); !x.in.Contains(a) || a == x.in.Addr() {
			t.Fatalf("%v is no host of %v", a, x.in)
		}
	}
}

// Some sequence numbers give the sum zero, which would mean no checksum.
func TestUDPChecksumIsNeverZero(t *testing.T) {
	tr := testTraffic(1)
	tr.Size, tr.SrcMAC = 64, testMAC
	ts := newTemplates(&tr, 1)
	frame := make([]byte, 60)
	ones := 0
	for seq := range uint32(1 << 16) {
		ts.write(frame, 0, 0, seq, 0)
		field := binary.BigEndian.Uint16(frame[40:])
		if field == 0 {
			t.Fatalf("number %d: a checksum of zero", seq)
		}
		if _, kind := read(frame); kind != intact {
			t.Fatalf("number %d: our own frame is not intact", seq)
		}
		if field == 0xffff {
			ones++
			frame[40], frame[41] = 0, 0
			if _, kind := read(frame); kind != corrupted {
				t.Errorf("number %d: a frame without a checksum is of kind %d", seq, kind)
			}
		}
	}
	if ones == 0 {
		t.Error("no sum came out as zero, so nothing was tried")
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		want   []string // of flows 0, 1, 2, ...
	}{
		{"192.0.2.7/32", []string{"192.0.2.7", "192.0.2.7"}},
		{"192.0.2.7/31", []string{"192.0.2.6", "192.0.2.7", "192.0.2.6"}},
		{"192.0.2.7/30", []string{"192.0.2.5", "192.0.2.6", "192.0.2.5"}},
		{"10.0.255.254/15", []string{"10.0.0.1", "10.0.0.2"}},
		{"2001:db8::7/128", []string{"2001:db8::7", "2001:db8::7"}},
		{"2001:db8::7/126", []string{"2001:db8::5", "2001:db8::6", "2001:db8::7", "2001:db8::5"}},
		{"2001:db8::/32", []string{"2001:db8::1", "2001:db8::2"}},
		{"::/0", []string{"::1", "::2"}},
	} {
		s := newSpread(netip.MustParsePrefix(tt.prefix), false, 0)
		for flow, want := range tt.want {
			if got := s.host(flow).String(); got != want {
				t.Errorf("%s: flow %d has %s, want %s", tt.prefix, flow, got, want)
			}
		}
	}
}

func TestRandomSpread(t *testing.T) {
	prefix := netip.MustParsePrefix("10.8.0.0/16")
	a, b := newSpread(prefix, true, 1), newSpread(prefix, true, 2)
	seen := map[netip.Addr]bool{}
	same, ascending := 0, 0
	for flow := range 1000 {
		addr := a.host(flow)
		if !prefix.Contains(addr) {
			t.Fatalf("flow %d has %v", flow, addr)
		}
		if addr == b.host(flow) {
			same++
		}
		if addr.Less(a.host(flow + 1)) {
			ascending++
		}
		seen[addr] = true
	}
	if len(seen) < 980 || same > 10 || ascending < 400 || ascending > 600 {
		t.Errorf("of 1000 flows: %d addresses, %d the same with another seed, %d in ascending order", len(seen), same, ascending)
	}
}

func TestAddCarries(t *testing.T) {
	if got := add(netip.MustParseAddr("2001:db8::ffff:ffff:ffff:fffe"), 3); got != netip.MustParseAddr("2001:db8:0:1::1") {
		t.Errorf("got %v", got)
	}
}
