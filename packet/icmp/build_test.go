package icmp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

var (
	router4 = netip.MustParseAddr("10.1.0.1")
	router6 = netip.MustParseAddr("fd01::1")
)

// bare is the IP packet in a frame, which Ethernet pads to 60 bytes.
func bare(frame []byte) []byte {
	p := frame[packet.EthernetLen:]
	if p[0]>>4 == 6 {
		return p[:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()]
	}
	return p[:(*packet.IPv4)(p).TotalLen()]
}

func offending4(payload int) []byte {
	return bare(testutil.UDP4("10.1.0.2", "10.2.0.2", 1000, 2000, pattern(payload)...))
}

func offending6(payload int) []byte {
	return bare(testutil.UDP6("fd01::2", "fd02::2", 1000, 2000, pattern(payload)...))
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	return b
}

// want4 is gopacket's idea of the error.
func want4(typ, code uint8, word uint32, tos uint8, id uint16, quote []byte) []byte {
	ip := testutil.IPv4("10.1.0.1", "10.1.0.2", layers.IPProtocolICMPv4)
	ip.TOS, ip.Id = tos, id
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), ip,
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(typ, code), Id: uint16(word >> 16), Seq: uint16(word)},
		gopacket.Payload(quote)))
}

func want6(typ, code uint8, word uint32, quote []byte) []byte {
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), testutil.IPv6("fd01::1", "fd01::2", layers.IPProtocolICMPv6),
		&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, code)},
		gopacket.Payload(append(binary.BigEndian.AppendUint32(nil, word), quote...))))
}

func TestEachCauseInBothFamilies(t *testing.T) {
	p4, p6 := offending4(30), offending6(30)
	for _, c := range []struct {
		name         string
		e            Error
		type4, code4 uint8
		word4        uint32
		type6, code6 uint8
		word6        uint32
	}{
		{"time exceeded", Error{Cause: TimeExceeded}, 11, 0, 0, 3, 0, 0},
		{"no route", Error{Cause: NoRoute}, 3, 0, 0, 1, 0, 0},
		{"host or address unreachable", Error{Cause: HostUnreachable}, 3, 1, 0, 1, 3, 0},
		{"administratively prohibited", Error{Cause: Prohibited}, 3, 13, 0, 1, 1, 0},
		{"fragmentation needed and packet too big", Error{TooBig, 1400}, 3, 4, 1400, 2, 0, 1400},
		{"an IPv4 MTU has 16 bits", Error{TooBig, 70000}, 3, 4, 65535, 2, 0, 70000},
		{"no IPv6 MTU is below 1280", Error{TooBig, 1000}, 3, 4, 1000, 2, 0, 1280},
		{"beyond scope of source address", Error{Cause: BeyondScope}, 3, 1, 0, 1, 2, 0},
		{"parameter problem", Error{ParameterProblem, 6}, 12, 0, 6 << 24, 4, 0, 6},
		{"unrecognized next header", Error{UnrecognizedHeader, 40}, 12, 0, 40 << 24, 4, 1, 40},
		{"unrecognized option", Error{UnrecognizedOption, 42}, 12, 0, 42 << 24, 4, 2, 42},
		{"a number where none belongs is not sent", Error{TimeExceeded, 7}, 11, 0, 0, 3, 0, 0},
	} {
		dst := bytes.Repeat([]byte{0xff}, 2000) // what was there before does not show
		got := dst[:Build(dst, p4, c.e, router4, 77)]
		if want := want4(c.type4, c.code4, c.word4, 0xc0, 77, p4); !bytes.Equal(got, want) {
			t.Errorf("%s, IPv4:\n got  % x\n want % x", c.name, got, want)
		}
		dst = bytes.Repeat([]byte{0xff}, 2000)
		got = dst[:Build(dst, p6, c.e, router6, 77)]
		if want := want6(c.type6, c.code6, c.word6, p6); !bytes.Equal(got, want) {
			t.Errorf("%s, IPv6:\n got  % x\n want % x", c.name, got, want)
		}
	}
}

// Every length of packet, odd ones included, is quoted as far as the error may be
// long, and its checksum is right.
func TestAsMuchIsQuotedAsFits(t *testing.T) {
	dst := make([]byte, 2000)
	for n := range 1500 {
		p4, p6 := offending4(n), offending6(n)
		got := dst[:Build(dst, p4, Error{Cause: TimeExceeded}, router4, 1)]
		if want := want4(11, 0, 0, 0xc0, 1, p4[:min(len(p4), 576-28)]); !bytes.Equal(got, want) {
			t.Fatalf("IPv4 packet of %d bytes: error of %d bytes, want %d", len(p4), len(got), len(want))
		}
		got = dst[:Build(dst, p6, Error{Cause: TimeExceeded}, router6, 1)]
		if want := want6(3, 0, 0, p6[:min(len(p6), 1280-48)]); !bytes.Equal(got, want) {
			t.Fatalf("IPv6 packet of %d bytes: error of %d bytes, want %d", len(p6), len(got), len(want))
		}
	}
}

// One word of the payload takes every value, and the pseudo-header's sum is about
// to overflow 16 bits: so every carry there can be is met.
func TestChecksumOfEverySum(t *testing.T) {
	dst, p, src := make([]byte, 200), offending6(2), netip.MustParseAddr("fd01::5eb")
	for word := range 1 << 16 {
		binary.BigEndian.PutUint16(p[len(p)-2:], uint16(word))
		got := dst[:Build(dst, p, Error{Cause: NoRoute}, src, 0)]
		pseudo := append(bytes.Clone(got[8:40]), 0, 0, 0, byte(len(got)-40), 0, 0, 0, 58)
		if sum := testutil.Sum(append(pseudo, got[40:]...)); sum != 0xffff {
			t.Fatalf("with %#04x: sum %#04x", word, sum)
		}
	}
}

func TestErrorFitsItsBuffer(t *testing.T) {
	for _, c := range []struct {
		name     string
		p        []byte
		src      netip.Addr
		min, max int // lengths of the buffer: too short to quote enough, and long enough for all
	}{
		{"IPv4", offending4(100), router4, 28 + 28, 28 + 128},
		{"IPv4 without payload", bare(testutil.Edit(offendingFrame4(0), 3, 20)), router4, 28 + 20, 28 + 20},
		{"IPv6", offending6(100), router6, 48 + 48, 48 + 148},
	} {
		for room := range c.max + 50 {
			want := min(room, c.max)
			if room < c.min {
				want = 0
			}
			dst := bytes.Repeat([]byte{0xaa}, room)
			got := Build(dst, c.p, Error{Cause: NoRoute}, c.src, 0)
			if got != want {
				t.Errorf("%s: %d bytes in a buffer of %d, want %d", c.name, got, room, want)
			}
			if got == 0 && !bytes.Equal(dst, bytes.Repeat([]byte{0xaa}, room)) {
				t.Errorf("%s: refused for a buffer of %d bytes, yet written to it", c.name, room)
			}
		}
	}
}

func offendingFrame4(payload int) []byte {
	return testutil.UDP4("10.1.0.2", "10.2.0.2", 1000, 2000, pattern(payload)...)
}

func TestPaddingIsNotQuoted(t *testing.T) {
	dst := make([]byte, 2000)
	p4, p6 := offending4(1), offending6(1)
	if n := Build(dst, append(bytes.Clone(p4), make([]byte, 17)...), Error{}, router4, 0); n != 28+len(p4) {
		t.Errorf("IPv4: %d bytes, want %d", n, 28+len(p4))
	}
	if n := Build(dst, append(bytes.Clone(p6), make([]byte, 17)...), Error{}, router6, 0); n != 48+len(p6) {
		t.Errorf("IPv6: %d bytes, want %d", n, 48+len(p6))
	}
}

// RFC 1812 4.3.2.5: type of service as received, precedence 6. RFC 3168: no ECN
// on what does not react to congestion.
func TestTypeOfService(t *testing.T) {
	dst := make([]byte, 2000)
	for tos, want := range map[byte]byte{0: 0xc0, 0x10: 0xd0, 0xe0: 0xc0, 0xb8: 0xd8, 0x03: 0xc0, 0xff: 0xdc} {
		p := bare(testutil.Edit(offendingFrame4(10), 1, tos))
		got := dst[:Build(dst, p, Error{Cause: TimeExceeded}, router4, 0)]
		if !bytes.Equal(got, want4(11, 0, 0, want, 0, p)) {
			t.Errorf("about %#02x: sent with %#02x, want %#02x", tos, got[1], want)
		}
	}
}

func TestOptionsAreQuotedAndEightBytesMore(t *testing.T) {
	ip := testutil.IPv4("10.1.0.2", "10.2.0.2", layers.IPProtocolUDP)
	ip.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 0}}
	p := bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), ip, &layers.UDP{SrcPort: 1, DstPort: 2},
		gopacket.Payload(pattern(50))))
	dst := make([]byte, 28+24+8)
	if n := Build(dst, p, Error{}, router4, 0); n != len(dst) || !bytes.Equal(dst[28:], p[:32]) {
		t.Errorf("%d bytes, want %d", n, len(dst))
	}
	if n := Build(dst[:len(dst)-1], p, Error{}, router4, 0); n != 0 {
		t.Errorf("%d bytes where the header and 8 bytes do not fit", n)
	}
}

func TestBuildRefuses(t *testing.T) {
	dst := make([]byte, 2000)
	p4, p6 := offending4(10), offending6(10)
	for name, c := range map[string]struct {
		p     []byte
		cause Cause
		src   netip.Addr
	}{
		"no packet":                          {nil, 0, router4},
		"half an IPv4 header":                {p4[:19], 0, router4},
		"half an IPv6 header":                {p6[:39], 0, router6},
		"IPv4 with an IPv6 source":           {p4, 0, router6},
		"IPv6 with an IPv4 source":           {p6, 0, router4},
		"no source":                          {p4, 0, netip.Addr{}},
		"another version":                    {append([]byte{0x55}, p4[1:]...), 0, router4},
		"a header length below 20":           {append([]byte{0x44}, p4[1:]...), 0, router4},
		"a header longer than the packet":    {append([]byte{0x4f}, p4[1:]...), 0, router4},
		"a total length below the header's":  {testutil.Edit(offendingFrame4(9), 2, 0, 19)[packet.EthernetLen:], 0, router4},
		"a cause that does not exist":        {p4, numCauses, router4},
		"a cause that cannot exist, of IPv6": {p6, 255, router6},
	} {
		if n := Build(dst, c.p, Error{Cause: c.cause}, c.src, 0); n != 0 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	dst, p4, p6 := make([]byte, 2000), offending4(1000), offending6(1000)
	l := NewLimiter(DefaultLimits)
	if n := testing.AllocsPerRun(100, func() {
		for _, p := range [][]byte{p4, p6} {
			if !Suppressed(p, TooBig, false) && l.Allow(0, 0, p, NoRoute) {
				Build(dst, p, Error{NoRoute, 0}, router4, 0)
			}
		}
		Build(dst, p6, Error{TooBig, 1400}, router6, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add(offending4(20), 100, uint8(0), uint32(0))
	f.Add(offending6(2000), 2000, uint8(TooBig), uint32(1400))
	f.Fuzz(func(t *testing.T, p []byte, room int, cause uint8, info uint32) {
		checkBuild(t, p, room, Cause(cause), info)
	})
}

// Whatever the packet, what is built is a whole packet with right checksums.
func TestBuildFromBrokenPackets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		p := testutil.Mutate(rnd, [][]byte{offending4(100), offending6(100)}[rnd.IntN(2)])
		checkBuild(t, p, rnd.IntN(1500), Cause(rnd.IntN(int(numCauses)+1)), rnd.Uint32())
	}
}

func checkBuild(t *testing.T, p []byte, room int, cause Cause, info uint32) {
	t.Helper()
	before := bytes.Clone(p)
	dst := make([]byte, min(max(room, 0), 3000))
	for _, src := range []netip.Addr{router4, router6} {
		n := Build(dst, p, Error{cause, info}, src, 5)
		if n == 0 {
			continue
		}
		got := dst[:n]
		var sum uint16
		var quote []byte
		switch {
		case src.Is4() && n <= MaxIPv4 && int(binary.BigEndian.Uint16(got[2:])) == n && testutil.Sum(got[:20]) == 0xffff:
			sum, quote = testutil.Sum(got[20:]), got[28:]
		case src.Is6() && n <= MaxIPv6 && int(binary.BigEndian.Uint16(got[4:]))+40 == n:
			pseudo := append(bytes.Clone(got[8:40]), 0, 0, byte((n-40)>>8), byte(n-40), 0, 0, 0, 58)
			sum, quote = testutil.Sum(append(pseudo, got[40:]...)), got[48:]
		default:
			t.Fatalf("about % x: built % x", p, got)
		}
		if sum != 0xffff || !bytes.HasPrefix(p, quote) {
			t.Fatalf("about % x: sum %#x of % x", p, sum, got)
		}
		Suppressed(p, cause, false)
	}
	if !bytes.Equal(p, before) {
		t.Fatal("the offending packet was changed")
	}
}
