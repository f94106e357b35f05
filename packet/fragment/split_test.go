package fragment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/ip4defrag"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	return b
}

// bare is the IP packet in a frame, which Ethernet pads to 60 bytes.
func bare(frame []byte) []byte {
	p := frame[packet.EthernetLen:]
	if p[0]>>4 == 6 {
		return p[:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()]
	}
	return p[:(*packet.IPv4)(p).TotalLen()]
}

// with4 is a packet with a payload of n bytes.
func with4(n int, change func(*layers.IPv4)) []byte {
	h := testutil.IPv4("10.1.0.2", "10.2.0.2", layers.IPProtocolUDP)
	h.Id, h.TOS, h.TTL = 0xabcd, 0xb8, 33
	if change != nil {
		change(h)
	}
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), h, gopacket.Payload(pattern(n))))
}

func with6(n int, change func(*layers.IPv6)) []byte {
	h := testutil.IPv6("fd01::2", "fd02::2", layers.IPProtocolESP)
	h.TrafficClass, h.FlowLabel, h.HopLimit = 0xb8, 0x12345, 33
	if change != nil {
		change(h)
	}
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), h, gopacket.Payload(pattern(n))))
}

func fragments(t *testing.T, s Split, err error) (all [][]byte) {
	t.Helper()
	require.NoError(t, err)
	dst := bytes.Repeat([]byte{0xff}, len(s.packet)+fragmentHeaderLen) // what was there before does not show
	for i := range s.Count() {
		n := s.Put(dst, i)
		if n == 0 {
			t.Fatalf("fragment %d of %d was not written", i, s.Count())
		}
		all = append(all, bytes.Clone(dst[:n]))
	}
	return all
}

// Payloads and MTUs about all multiples of 8: gopacket's reading of the fragments
// is what RFC 791 says of them.
func TestIPv4FragmentsFollowRFC791(t *testing.T) {
	for mtu := 28; mtu < 80; mtu++ {
		for n := range 130 {
			p := with4(n, nil)
			s, err := IPv4(p, mtu)
			all := fragments(t, s, err)
			if len(p) <= mtu {
				if len(all) != 1 || !bytes.Equal(all[0], p) {
					t.Fatalf("%d bytes fit %d, yet were changed", len(p), mtu)
				}
				continue
			}
			step := (mtu - 20) / 8 * 8
			if want := (n + step - 1) / step; len(all) != want {
				t.Fatalf("%d bytes by %d: %d fragments, want %d", len(p), mtu, len(all), want)
			}
			for i, f := range all {
				at := i * step
				want := with4(n, func(h *layers.IPv4) {
					h.FragOffset = uint16(at / 8)
					if i < len(all)-1 {
						h.Flags = layers.IPv4MoreFragments
					}
				})[:20]
				end := min(at+step, n)
				want = append(want, pattern(n)[at:end]...)
				want = testutil.Edit(append(make([]byte, packet.EthernetLen), want...), 2, byte(len(want)>>8), byte(len(want)))[packet.EthernetLen:]
				if !bytes.Equal(f, want) {
					t.Fatalf("%d bytes by %d, fragment %d:\n got  % x\n want % x", len(p), mtu, i, f, want)
				}
			}
		}
	}
}

func TestIPv6FragmentsFollowRFC8200(t *testing.T) {
	for mtu := 56; mtu < 110; mtu++ {
		for n := range 130 {
			p := with6(n, nil)
			s, err := IPv6(p, mtu, 0xdeadbeef)
			all := fragments(t, s, err)
			if len(p) <= mtu {
				if len(all) != 1 || !bytes.Equal(all[0], p) {
					t.Fatalf("%d bytes fit %d, yet were changed", len(p), mtu)
				}
				continue
			}
			step := (mtu - 48) / 8 * 8
			if want := (n + step - 1) / step; len(all) != want {
				t.Fatalf("%d bytes by %d: %d fragments, want %d", len(p), mtu, len(all), want)
			}
			for i, f := range all {
				at := i * step
				end := min(at+step, n)
				h := binary.BigEndian.AppendUint16([]byte{byte(layers.IPProtocolESP), 0}, uint16(at))
				if i < len(all)-1 {
					h[3] |= 1
				}
				h = append(binary.BigEndian.AppendUint32(h, 0xdeadbeef), pattern(n)[at:end]...)
				want := with6(len(h), func(h *layers.IPv6) { h.NextHeader = layers.IPProtocolIPv6Fragment })
				copy(want[40:], h)
				if !bytes.Equal(f, want) {
					t.Fatalf("%d bytes by %d, fragment %d:\n got  % x\n want % x", len(p), mtu, i, f, want)
				}
			}
		}
	}
}

// gopacket puts together what was split, and split again on the way.
func TestFragmentsOfFragmentsReassemble(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		n := 600 + rnd.IntN(8000)
		s, err := IPv4(with4(n, nil), 576+rnd.IntN(1500))
		var twice [][]byte
		for _, f := range fragments(t, s, err) {
			s, err := IPv4(f, 100+rnd.IntN(500))
			twice = append(twice, fragments(t, s, err)...)
		}
		d := ip4defrag.NewIPv4Defragmenter()
		var whole *layers.IPv4
		for _, f := range twice {
			var h layers.IPv4
			require.NoError(t, h.DecodeFromBytes(f, gopacket.NilDecodeFeedback))
			whole, err = d.DefragIPv4(&h)
			require.NoError(t, err)
		}
		if whole == nil || !bytes.Equal(whole.Payload, pattern(n)) {
			t.Fatalf("%d bytes in %d fragments do not come together", n, len(twice))
		}
	}
}

func TestFragmentKeepsItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		flags layers.IPv4Flag
		last  layers.IPv4Flag
	}{
		"in the middle": {layers.IPv4MoreFragments, layers.IPv4MoreFragments},
		"at the end":    {0, 0},
	} {
		p := with4(48, func(h *layers.IPv4) { h.FragOffset, h.Flags = 1000, c.flags })
		s, err := IPv4(p, 44)
		all := fragments(t, s, err)
		if len(all) != 2 {
			t.Fatalf("%s: %d fragments, want 2", name, len(all))
		}
		for i, want := range []uint16{uint16(layers.IPv4MoreFragments)<<13 | 1000, uint16(c.last)<<13 | 1003} {
			if got := binary.BigEndian.Uint16(all[i][6:]); got != want {
				t.Errorf("%s: fragment %d has flags and offset %#04x, want %#04x", name, i, got, want)
			}
		}
	}
}

func TestPacketsThatMustNotBeFragmented(t *testing.T) {
	df := func(h *layers.IPv4) { h.Flags = layers.IPv4DontFragment }
	options := func(h *layers.IPv4) { h.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 0}} }
	next := func(n layers.IPProtocol) func(*layers.IPv6) { return func(h *layers.IPv6) { h.NextHeader = n } }
	edit := func(p []byte, at int, with ...byte) []byte { copy(p[at:], with); return p }
	for _, c := range []struct {
		name string
		p    []byte
		mtu  int
		want error
	}{
		{"IPv4, Don't Fragment", with4(100, df), 100, ErrDontFragment},
		{"IPv4, Don't Fragment, but fits", with4(100, df), 120, nil},
		{"IPv4, options", with4(100, options), 100, ErrOptions},
		{"IPv4, options, but fits", with4(100, options), 124, nil},
		{"IPv4, no room for 8 bytes", with4(100, nil), 27, ErrMTU},
		{"IPv4, room for 8 bytes", with4(100, nil), 28, nil},
		{"IPv4, an MTU of nothing", with4(100, nil), -1, ErrMTU},
		{"IPv4, half a header", with4(100, nil)[:19], 100, ErrMalformed},
		{"IPv4, nothing", nil, 100, ErrMalformed},
		{"IPv4, longer than it is", with4(100, nil)[:119], 100, ErrMalformed},
		{"IPv4, shorter than its header", edit(with4(100, nil), 2, 0, 19), 100, ErrMalformed},
		{"IPv4, header of 16 bytes", edit(with4(100, nil), 0, 0x44), 100, ErrMalformed},
		{"IPv4, an IPv6 packet", with6(100, nil), 100, ErrMalformed},
		{"IPv4, the last fragment there can be", with4(1259, func(h *layers.IPv4) { h.FragOffset = 8032 }), 100, nil},
		{"IPv4, a fragment that ends beyond 65535", with4(1260, func(h *layers.IPv4) { h.FragOffset = 8032 }), 100, ErrMalformed},
		{"IPv6, hop-by-hop options", with6(100, next(layers.IPProtocolIPv6HopByHop)), 100, ErrOptions},
		{"IPv6, routing header", with6(100, next(layers.IPProtocolIPv6Routing)), 100, ErrOptions},
		{"IPv6, destination options", with6(100, next(layers.IPProtocolIPv6Destination)), 100, ErrOptions},
		{"IPv6, a fragment", with6(100, next(layers.IPProtocolIPv6Fragment)), 100, ErrOptions},
		{"IPv6, a fragment, but fits", with6(100, next(layers.IPProtocolIPv6Fragment)), 140, nil},
		{"IPv6, no room for 8 bytes", with6(100, nil), 55, ErrMTU},
		{"IPv6, half a header", with6(100, nil)[:39], 100, ErrMalformed},
		{"IPv6, longer than it is", with6(100, nil)[:139], 100, ErrMalformed},
		{"IPv6, an IPv4 packet", edit(with6(100, nil), 0, 0x45), 100, ErrMalformed},
	} {
		split := func(p []byte, mtu int) (Split, error) { return IPv4(p, mtu) }
		if c.name[:4] == "IPv6" {
			split = func(p []byte, mtu int) (Split, error) { return IPv6(p, mtu, 1) }
		}
		s, err := split(c.p, c.mtu)
		if !errors.Is(err, c.want) || (err == nil) != (s.Count() > 0) {
			t.Errorf("%s: %v with %d fragments, want %v", c.name, err, s.Count(), c.want)
		}
	}
}

func TestPutNeedsRoomAndAFragment(t *testing.T) {
	for name, s := range map[string]Split{"IPv4": must(IPv4(with4(100, nil), 76)), "IPv6": must(IPv6(with6(100, nil), 104, 1)), "IPv4, whole": must(IPv4(with4(56, nil), 76))} {
		dst := bytes.Repeat([]byte{0xaa}, 200)
		n := s.Put(dst, 0)
		if n == 0 || n != s.Put(dst[:n], 0) || s.Put(dst[:n-1], 0) != 0 {
			t.Errorf("%s: a fragment of %d bytes is not written to a buffer of just that length alone", name, n)
		}
		if s.Put(dst, -1) != 0 || s.Put(dst, s.Count()) != 0 {
			t.Errorf("%s: a fragment that does not exist was written", name)
		}
	}
	var none Split
	if none.Count() != 0 || none.Put(make([]byte, 100), 0) != 0 {
		t.Error("the zero Split has fragments")
	}
}

func must(s Split, err error) Split {
	if err != nil {
		panic(err) // a mistake in a test, not a result of one
	}
	return s
}

func TestSplitAllocatesNothing(t *testing.T) {
	p4, p6, dst := with4(5000, nil), with6(5000, nil), make([]byte, 1500)
	if n := testing.AllocsPerRun(100, func() {
		a, _ := IPv4(p4, 1500)
		b, _ := IPv6(p6, 1500, 1)
		_, err := IPv4(p4, 5)
		for i := range a.Count() {
			a.Put(dst, i)
			b.Put(dst, i)
		}
		if err == nil {
			t.Error("no error")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(with4(100, nil), 60)
	f.Add(with6(100, nil), 100)
	f.Fuzz(func(t *testing.T, p []byte, mtu int) {
		a, err4 := IPv4(p, mtu)
		b, err6 := IPv6(p, mtu, 7)
		if err4 == nil && err6 == nil {
			t.Fatal("a packet of both versions")
		}
		dst := make([]byte, max(0, min(mtu, maxPacket+1000)))
		for _, s := range []Split{a, b} {
			total := 0
			for i := range s.Count() {
				n := s.Put(dst, i)
				if n == 0 {
					t.Fatalf("fragment %d of %d is longer than the MTU of %d", i, s.Count(), mtu)
				}
				total += n
			}
			if s.Count() > 0 && total < len(s.packet) {
				t.Fatalf("%d bytes of %d", total, len(s.packet))
			}
		}
	})
}
