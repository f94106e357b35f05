package offload

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// tcp returns a TCP packet of a flow, with right checksums.
func tcp(ipv6 bool, port, id uint16, seq uint32, flags byte, payload []byte) []byte {
	l4 := make([]byte, 32+len(payload))
	binary.BigEndian.PutUint16(l4, port)
	binary.BigEndian.PutUint16(l4[2:], 80)
	binary.BigEndian.PutUint32(l4[4:], seq)
	l4[12], l4[13] = 0x80, flags
	copy(l4[20:], []byte{1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8})
	copy(l4[32:], payload)
	return ip(ipv6, id, packet.TCP, l4)
}

func udp(ipv6 bool, port, id uint16, payload []byte) []byte {
	l4 := make([]byte, 8+len(payload))
	binary.BigEndian.PutUint16(l4, port)
	binary.BigEndian.PutUint16(l4[2:], 53)
	binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	copy(l4[8:], payload)
	return ip(ipv6, id, packet.UDP, l4)
}

func ip(ipv6 bool, id uint16, proto packet.Protocol, l4 []byte) []byte {
	var p []byte
	if ipv6 {
		p = make([]byte, 40, 40+len(l4))
		p[0], p[6], p[7], p[23], p[39] = 0x60, byte(proto), 64, 1, 2
		binary.BigEndian.PutUint16(p[4:], uint16(len(l4)))
	} else {
		p = make([]byte, 20, 20+len(l4))
		p[0], p[6], p[8], p[9] = 0x45, 0x40, 64, byte(proto)
		copy(p[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
		binary.BigEndian.PutUint16(p[2:], uint16(20+len(l4)))
		binary.BigEndian.PutUint16(p[4:], id)
	}
	p = append(p, l4...)
	fix(p)
	return p
}

// fix sets the checksums of a packet.
func fix(p []byte) {
	start := 40
	if p[0]>>4 == 4 {
		start = 20
		p[10], p[11] = 0, 0
		binary.BigEndian.PutUint16(p[10:], ^testutil.Sum(p[:20]))
	}
	at := map[bool]int{true: start + 16, false: start + 6}[parseProto(p) == packet.TCP]
	p[at], p[at+1] = 0, 0
	addrs := addresses(p)
	sum := ^testutil.Sum(append(append(bytes.Clone(addrs), 0, byte(parseProto(p)), byte((len(p)-start)>>8), byte(len(p)-start)), p[start:]...))
	if sum == 0 && parseProto(p) == packet.UDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(p[at:], sum)
}

func parseProto(p []byte) packet.Protocol {
	if p[0]>>4 == 4 {
		return packet.Protocol(p[9])
	}
	return packet.Protocol(p[6])
}

// merged returns the packets and headers that the host receives.
func merged(packets [][]byte) (heads []Header, large [][]byte) {
	m := NewMerger(len(packets))
	for _, g := range m.Group(packets, false) {
		if g.Packets == 1 {
			heads, large = append(heads, Header{}), append(large, packets[g.First])
			continue
		}
		last := g.First
		for i := g.First; i >= 0; i = m.Next(i) {
			last = i
		}
		h := Finish(packets[g.First], packets[last], &g)
		p := bytes.Clone(packets[g.First])
		for i := m.Next(g.First); i >= 0; i = m.Next(i) {
			p = append(p, packets[i][h.PayloadAt():]...)
		}
		heads, large = append(heads, h), append(large, p)
	}
	return heads, large
}

// split returns the packets of large ones.
func split(t *testing.T, heads []Header, large [][]byte) (packets [][]byte) {
	t.Helper()
	var s Splitter
	for i, p := range large {
		if heads[i] == (Header{}) {
			packets = append(packets, p)
			continue
		}
		if !s.Begin(heads[i], p) {
			t.Fatalf("refused %+v of % x", heads[i], p[:60])
		}
		for n := s.Len(); n > 0; n = s.Len() {
			b := make([]byte, n)
			if s.Next(b) != n {
				t.Fatal("another length")
			}
			packets = append(packets, b)
		}
	}
	return packets
}

// edit returns a packet with other bytes at an offset.
func edit(p []byte, at int, with ...byte) []byte {
	copy(p[at:], with)
	return p
}

func clone(packets [][]byte) (copies [][]byte) {
	for _, p := range packets {
		copies = append(copies, bytes.Clone(p))
	}
	return copies
}

// Packets of one flow become one large packet, and its segments are these packets.
func TestFlowsAreMergedAndSplitBack(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		var flow [][]byte
		for i := range 20 {
			payload := bytes.Repeat([]byte{byte(i)}, 1400)
			flags := byte(ack)
			if i == 19 {
				payload, flags = payload[:700], ack|psh|fin
			}
			flow = append(flow, tcp(ipv6, 9, uint16(i)+0xfff0, 0xffffff00+uint32(i)*1400, flags, payload))
		}
		var datagrams [][]byte
		for i := range 20 {
			datagrams = append(datagrams, udp(ipv6, 9, uint16(i), bytes.Repeat([]byte{byte(i)}, 1000-i/19)))
		}
		for _, packets := range [][][]byte{flow, datagrams} {
			heads, large := merged(clone(packets))
			if len(large) != 1 {
				t.Fatalf("IPv6 %v: %d packets, want 1", ipv6, len(large))
			}
			back := split(t, heads, large)
			for i := range packets {
				if !bytes.Equal(back[i], packets[i]) {
					t.Fatalf("IPv6 %v, packet %d:\n% x, want\n% x", ipv6, i, back[i], packets[i])
				}
			}
		}
	}
}

// Packets that differ where segments of one packet cannot differ are not merged.
func TestDifferentPacketsAreNotMerged(t *testing.T) {
	payload := make([]byte, 100)
	first := func(v6 bool) []byte { return tcp(v6, 9, 5, 1000, ack, payload) }
	second := func(v6 bool) []byte { return tcp(v6, 9, 6, 1100, ack, payload) }
	if _, large := merged([][]byte{first(false), second(false)}); len(large) != 1 {
		t.Fatal("equal packets are not merged")
	}
	for name, change := range map[string]func(p []byte){
		"TTL": func(p []byte) { p[8]-- }, "TOS": func(p []byte) { p[1] = 4 }, "DF": func(p []byte) { p[6] = 0 },
		"more fragments": func(p []byte) { p[6] = 0x20 }, "identification": func(p []byte) { p[5] = 9 }, "source": func(p []byte) { p[15]++ },
		"port": func(p []byte) { p[21]++ }, "sequence": func(p []byte) { p[27]++ }, "acknowledgment": func(p []byte) { p[31]++ },
		"window": func(p []byte) { p[35]++ }, "urgent pointer": func(p []byte) { p[39]++ }, "options": func(p []byte) { p[47]++ },
		"SYN": func(p []byte) { p[33] |= 2 }, "RST": func(p []byte) { p[33] |= 4 }, "URG": func(p []byte) { p[33] |= 32 },
		"ECE": func(p []byte) { p[33] |= ece }, "CWR": func(p []byte) { p[33] |= cwr }, "AE": func(p []byte) { p[32] |= 1 },
	} {
		p := second(false)
		change(p)
		fix(p)
		if _, large := merged([][]byte{first(false), p}); len(large) != 2 {
			t.Errorf("%s: merged", name)
		}
	}
	for name, change := range map[string]func(p []byte){
		"hop limit": func(p []byte) { p[7]-- }, "traffic class": func(p []byte) { p[1] |= 0x10 }, "flow label": func(p []byte) { p[3] = 1 },
		"destination": func(p []byte) { p[39]++ },
	} {
		p := second(true)
		change(p)
		fix(p)
		if _, large := merged([][]byte{first(true), p}); len(large) != 2 {
			t.Errorf("%s: merged", name)
		}
	}
	for name, pair := range map[string][2][]byte{
		"no payload":             {first(false), tcp(false, 9, 6, 1100, ack, nil)},
		"longer":                 {first(false), tcp(false, 9, 6, 1100, ack, make([]byte, 101))},
		"wrong checksum, second": {first(false), edit(second(false), 60, 1)},
		"wrong checksum, first":  {edit(first(false), 60, 1), second(false)},
		"wrong IP checksum":      {first(false), edit(second(false), 10, 1)},
		"PSH first":              {tcp(false, 9, 5, 1000, ack|psh, payload), second(false)},
		"UDP without checksum":   {udp(false, 9, 5, payload), edit(udp(false, 9, 6, payload), 26, 0, 0)},
		"longer datagram":        {udp(false, 9, 5, payload), udp(false, 9, 6, make([]byte, 101))},
	} {
		if _, large := merged(pair[:]); len(large) != 2 {
			t.Errorf("%s: merged", name)
		}
	}
}

// FuzzMerge merges packets of a few flows that are damaged at random, and compares the segments with the
// packets, in the order of each flow.
func FuzzMerge(f *testing.F) {
	f.Add(uint64(1), uint8(40), []byte{})
	f.Add(uint64(2), uint8(200), []byte{3, 33, 8, 7, 12, 1})
	f.Fuzz(func(t *testing.T, seed uint64, count uint8, damage []byte) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		type state struct {
			seq uint32
			id  uint16
		}
		var flows [6]state
		var packets [][]byte
		for range count {
			i := rnd.IntN(len(flows))
			s := &flows[i]
			payload := make([]byte, 50)
			if rnd.IntN(8) == 0 {
				payload = payload[:rnd.IntN(51)]
			}
			for j := range payload {
				payload[j] = byte(rnd.Uint32())
			}
			flags := byte(ack)
			if rnd.IntN(10) == 0 {
				flags = byte(rnd.Uint32())
			}
			var p []byte
			if i%3 == 2 {
				p = udp(i < 3, uint16(i), s.id, payload)
			} else {
				p = tcp(i < 3, uint16(i), s.id, s.seq, flags, payload)
			}
			s.id, s.seq = s.id+1, s.seq+uint32(len(payload))
			packets = append(packets, p)
		}
		for i := 0; i+2 < len(damage) && len(packets) > 0; i += 3 {
			p := packets[int(damage[i])%len(packets)]
			p[int(damage[i+1])%len(p)] ^= damage[i+2]
			if damage[i]&1 == 0 && (parseProto(p) == packet.TCP || parseProto(p) == packet.UDP) && len(p) > 60 && (p[0] == 0x45 || p[0]>>4 == 6) {
				fix(p)
			}
		}
		heads, large := merged(clone(packets))
		back := split(t, heads, large)
		if len(back) != len(packets) {
			t.Fatalf("%d packets, want %d", len(back), len(packets))
		}
		checkFlows(t, back, packets)
	})
}

// checkFlows compares packets flow by flow.
func checkFlows(t *testing.T, got, want [][]byte) {
	t.Helper()
	sorted := func(packets [][]byte) map[string][][]byte {
		flows := map[string][][]byte{}
		for _, p := range packets {
			key := "other"
			if h := parse(p); h.l4 > 0 {
				key = string(append(bytes.Clone(addresses(p)), p[h.l4:h.l4+4]...)) + string(rune(h.proto))
			}
			flows[key] = append(flows[key], p)
		}
		return flows
	}
	a, b := sorted(got), sorted(want)
	for key := range b {
		if len(a[key]) != len(b[key]) {
			t.Fatalf("flow % x has %d packets, want %d", key, len(a[key]), len(b[key]))
		}
		for i := range b[key] {
			if !bytes.Equal(a[key][i], b[key][i]) {
				t.Fatalf("flow % x, packet %d:\n% x, want\n% x", key, i, a[key][i], b[key][i])
			}
		}
	}
}

// FuzzSplit splits packets with any description: none is longer than its room, and all end.
func FuzzSplit(f *testing.F) {
	f.Add([]byte{1, 1, 0, 0, 100, 0, 20, 0, 16, 0}, tcp(false, 1, 1, 1, ack, make([]byte, 500)))
	f.Add([]byte{1, 5, 0, 0, 100, 0, 40, 0, 6, 0}, udp(true, 1, 1, make([]byte, 500)))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 40, 0, 6, 0}, udp(true, 1, 1, make([]byte, 500)))
	f.Fuzz(func(t *testing.T, head, p []byte) {
		if len(head) < HeaderLen {
			return
		}
		var s Splitter
		if !s.Begin(ParseHeader((*[HeaderLen]byte)(head)), p) {
			return
		}
		total := 0
		for n := s.Len(); n > 0; n = s.Len() {
			if n > len(p) {
				t.Fatalf("%d bytes of %d", n, len(p))
			}
			b := make([]byte, n)
			if s.Next(b) != n {
				t.Fatal("another length")
			}
			if total++; total > len(p)+1 {
				t.Fatal("no end")
			}
		}
	})
}

func TestHeaderIsReadAsWritten(t *testing.T) {
	h := Header{1, 2, 3, 4, 5, 6}
	var b [HeaderLen]byte
	h.Put(&b)
	if got := ParseHeader(&b); got != h {
		t.Errorf("%+v, want %+v", got, h)
	}
}

func TestMergingAllocatesNothing(t *testing.T) {
	var packets [][]byte
	for i := range 64 {
		packets = append(packets, tcp(false, uint16(i%4), uint16(i), uint32(i)*100, ack, make([]byte, 100)))
	}
	m := NewMerger(64)
	if n := testing.AllocsPerRun(10, func() { m.Group(packets, false) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMerge(b *testing.B) {
	var packets [][]byte
	for i := range 44 {
		packets = append(packets, tcp(false, 1, uint16(i), uint32(i)*1400, ack, make([]byte, 1400)))
	}
	m := NewMerger(64)
	b.SetBytes(44 * 1452)
	for b.Loop() {
		m.Group(packets, false)
	}
}
