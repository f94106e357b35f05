package packet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
)

func TestSumAtEveryLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	random, ones := make([]byte, 2048), bytes.Repeat([]byte{0xff}, 2048)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	for _, data := range [][]byte{random, ones, make([]byte, 2048)} {
		for n := range len(data) + 1 {
			if got, want := Sum(data[:n]), testutil.Sum(data[:n]); got != want {
				t.Fatalf("%d bytes from % x...: got %#04x, want %#04x", n, data[:4], got, want)
			}
		}
	}
}

// Every old and new word against every kind of rest, the edges of RFC 1624
// section 3 (0x0000 and 0xffff) included.
func TestUpdateChecksumEqualsRecomputation(t *testing.T) {
	for _, rest := range []uint16{0x0001, 0x4500, 0x7fff, 0x8000, 0xdd2f, 0xfffe, 0xffff} {
		for m := range 1 << 16 {
			for _, m2 := range []uint16{0, 1, 0x3285, 0x5555, 0xfffe, 0xffff, uint16(m) - 0x100, ^uint16(m)} {
				var b [4]byte
				binary.BigEndian.PutUint16(b[0:], rest)
				binary.BigEndian.PutUint16(b[2:], uint16(m))
				before := ^testutil.Sum(b[:])
				binary.BigEndian.PutUint16(b[2:], m2)
				want := ^testutil.Sum(b[:])
				if got := UpdateChecksum(before, uint16(m), m2); got != want {
					t.Fatalf("rest %#04x, word %#04x to %#04x: got %#04x, want %#04x", rest, m, m2, got, want)
				}
			}
		}
	}
}

func TestDecrementTTLKeepsTheChecksumRight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 20_000 {
		var h IPv4
		for i := range h {
			h[i] = byte(rnd.Uint32())
		}
		h[0] = 0x45
		h[8] = byte(1 + rnd.IntN(255))
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], ^testutil.Sum(h[:]))
		if !h.ChecksumOK() {
			t.Fatalf("header % x: checksum refused", h)
		}
		before := h
		h.DecrementTTL()
		want := before
		want[8]--
		binary.BigEndian.PutUint16(want[10:], 0)
		binary.BigEndian.PutUint16(want[10:], ^testutil.Sum(want[:]))
		if h != want {
			t.Fatalf("header % x:\n got  % x\n want % x", before, h, want)
		}
		h[16] ^= 1
		if h.ChecksumOK() {
			t.Fatalf("header % x: wrong checksum accepted", h)
		}
	}
}

func TestUnfinishedL4ChecksumsAreCompleted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for n := range 600 {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(rnd.Uint32())
		}
		tcp := &layers.TCP{SrcPort: 1, DstPort: layers.TCPPort(rnd.IntN(65536)), Window: 9, ACK: true}
		udp := &layers.UDP{SrcPort: 1, DstPort: layers.UDPPort(rnd.IntN(65536))}
		v4 := func(p layers.IPProtocol) *layers.IPv4 { return testutil.IPv4("10.0.0.1", "10.0.0.2", p) }
		v6 := func(p layers.IPProtocol) *layers.IPv6 { return testutil.IPv6("fd00::1", "fd00::2", p) }
		e4, e6 := testutil.Ethernet(layers.EthernetTypeIPv4), testutil.Ethernet(layers.EthernetTypeIPv6)
		data := gopacket.Payload(payload)
		for _, c := range []struct {
			name     string
			want     []byte
			l4       int // offset in the IP packet
			proto    Protocol
			checksum int // offset in the L4 header
		}{
			{"TCP over IPv4", testutil.Frame(e4, v4(6), tcp, data), IPv4Len, TCP, 16},
			{"UDP over IPv4", testutil.Frame(e4, v4(17), udp, data), IPv4Len, UDP, 6},
			{"TCP over IPv6", testutil.Frame(e6, v6(6), tcp, data), IPv6Len, TCP, 16},
			{"UDP over IPv6", testutil.Frame(e6, v6(17), udp, data), IPv6Len, UDP, 6},
		} {
			c.want = c.want[:EthernetLen+c.l4+len(payload)+map[Protocol]int{TCP: 20, UDP: 8}[c.proto]] // no L2 padding
			ip := c.want[EthernetLen:]
			addrs, complete := ip[12:20], CompleteIPv4
			if c.l4 == IPv6Len {
				addrs = ip[8:40]
				complete = func(p []byte) bool { return CompleteIPv6(p, c.proto, c.l4) }
			}
			got := testutil.Unfinished(c.want, EthernetLen+c.l4+c.checksum, addrs, byte(c.proto), len(ip)-c.l4)
			if !complete(got[EthernetLen:]) {
				t.Fatalf("%s, %d bytes: not seen as unfinished", c.name, n)
			}
			if !bytes.Equal(got, c.want) {
				t.Fatalf("%s, %d bytes:\n got  % x\n want % x", c.name, n, got, c.want)
			}
			if complete(got[EthernetLen:]); !bytes.Equal(got, c.want) {
				t.Fatalf("%s, %d bytes: a finished checksum was changed", c.name, n)
			}
		}
	}
}

// A sum of zero is sent as all ones in UDP (RFC 768), and only there.
func TestCompletedUDPChecksumIsNeverZero(t *testing.T) {
	f := testutil.UDP4("10.0.0.1", "10.0.0.2", 1, 2, 0, 0)[:EthernetLen+30]
	p := f[EthernetLen:]
	// Choose the payload so that the checksum comes out as zero: it is then ~0 + the old one.
	binary.BigEndian.PutUint16(p[28:], binary.BigEndian.Uint16(p[26:]))
	got := testutil.Unfinished(f, EthernetLen+26, p[12:20], 17, len(p)-20)
	if !CompleteIPv4(got[EthernetLen:]) {
		t.Fatal("not seen as unfinished")
	}
	if sum := binary.BigEndian.Uint16(got[EthernetLen+26:]); sum != 0xffff {
		t.Errorf("checksum %#04x, want 0xffff", sum)
	}
}

func TestCompleteChecksumsStay(t *testing.T) {
	udp := testutil.UDP4("10.0.0.1", "10.0.0.2", 1, 2, 3, 4)[EthernetLen:][:30]
	fragment := bytes.Clone(udp)
	fragment[6] = 0x20 // more fragments
	binary.BigEndian.PutUint16(fragment[26:], 0x1234)
	none := bytes.Clone(udp)
	binary.BigEndian.PutUint16(none[26:], 0)
	for name, p := range map[string][]byte{
		"finished":        udp,
		"UDP without one": none,
		"fragment":        testutil.Unfinished(fragment, 26, fragment[12:20], 17, len(fragment)-20),
		"L4 header cut":   udp[:24],
		"no L4 header":    udp[:20],
		"other protocol": func() []byte {
			p := bytes.Clone(udp)
			p[9] = 47
			return testutil.Unfinished(p, 26, p[12:20], 47, len(p)-20)
		}(),
		"ends in checksum": udp[:27],
	} {
		before := bytes.Clone(p)
		if CompleteIPv4(p) || !bytes.Equal(p, before) {
			t.Errorf("%s: changed from % x to % x", name, before, p)
		}
	}
}
