package fragment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/packet"
)

// part is a fragment with a payload, at an offset in bytes.
func part4(id uint16, offset int, more bool, payload []byte) []byte {
	p := with4(len(payload), func(h *layers.IPv4) {
		h.Id, h.FragOffset = id, uint16(offset/8)
		if more {
			h.Flags = layers.IPv4MoreFragments
		}
	})
	copy(p[20:], payload)
	return p
}

func part6(id uint16, offset int, more bool, payload []byte) []byte {
	p := with6(8+len(payload), func(h *layers.IPv6) { h.NextHeader = layers.IPProtocolIPv6Fragment })
	word := uint16(offset)
	if more {
		word |= 1
	}
	p[40], p[41] = byte(layers.IPProtocolESP), 0
	binary.BigEndian.PutUint16(p[42:], word)
	binary.BigEndian.PutUint32(p[44:], uint32(id))
	copy(p[48:], payload)
	return p
}

// A family is how tests make packets of it.
type family struct {
	name  string
	part  func(id uint16, offset int, more bool, payload []byte) []byte
	whole func(id uint16, payload []byte) []byte
	src   int // of the source address in the header
}

var families = []family{
	{"IPv4", part4, func(id uint16, payload []byte) []byte { return part4(id, 0, false, payload) }, 12},
	{"IPv6", part6, func(_ uint16, payload []byte) []byte {
		p := with6(len(payload), nil)
		copy(p[40:], payload)
		return p
	}, 8},
}

func eachFamily(t *testing.T, f func(*testing.T, family)) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) { f(t, fam) })
	}
}

// from gives a packet another source, of another network.
func (f family) from(p []byte, i int) []byte {
	p = bytes.Clone(p)
	binary.BigEndian.PutUint32(p[f.src:], 0x0a000000+uint32(i))
	return p
}

func permutations(n int, f func([]int)) {
	order := make([]int, 0, n)
	var used int
	var next func()
	next = func() {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if used>>i&1 == 0 {
				used |= 1 << i
				order = append(order, i)
				next()
				order = order[:len(order)-1]
				used &^= 1 << i
			}
		}
	}
	next()
}

// All 720 orders of six fragments, each also with every fragment twice.
func TestFragmentsComeTogetherInAnyOrder(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(5*16 + 3)
		want := fam.whole(9, data)
		r := NewReassembler(Limits{})
		permutations(6, func(order []int) {
			for times := 1; times <= 2; times++ {
				for n, i := range order {
					at := i * 16
					p := fam.part(9, at, i < 5, data[at:min(at+16, len(data))])
					for range times {
						got, err := r.Add(0, p)
						if last := n == 5; err != nil || (got != nil) != last || last && !bytes.Equal(got, want) {
							t.Fatalf("order %v, fragment %d: % x, %v", order, i, got, err)
						}
						if n == 5 {
							break // twice would begin a datagram that is never whole
						}
					}
				}
			}
		})
		if r.Waiting() != 0 || r.Counters() != (Counters{Whole: 2 * 720}) {
			t.Errorf("%d wait, %+v", r.Waiting(), r.Counters())
		}
	})
}

// The longest datagrams there are, in the smallest fragments there are.
func TestTinyFragmentsOfTheLongestDatagram(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		longest := map[string]int{"IPv4": maxPacket - 20, "IPv6": maxPacket}[fam.name]
		data := pattern(longest)
		r := NewReassembler(Limits{Datagrams: 1})
		offsets := rand.New(rand.NewPCG(7, 8)).Perm((longest + 7) / 8)
		for n, i := range offsets {
			at := i * 8
			end := min(at+8, longest)
			got, err := r.Add(0, fam.part(1, at, end < longest, data[at:end]))
			if err != nil {
				t.Fatalf("at %d: %v", at, err)
			}
			if last := n == len(offsets)-1; (got != nil) != last || last && !bytes.Equal(got, fam.whole(1, data)) {
				t.Fatalf("fragment %d of %d made %d bytes", n, len(offsets), len(got))
			}
		}
	})
}

func TestLengthsBeyondAPacketsAreRefused(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		r := NewReassembler(Limits{})
		longest := map[string]int{"IPv4": maxPacket - 20, "IPv6": maxPacket}[fam.name]
		last := longest / 8 * 8
		for _, c := range []struct {
			name   string
			at, n  int
			refuse bool
		}{
			{"to the last byte", last, longest - last, false},
			{"one byte more", last, longest - last + 1, true},
			{"ping of death", 65528, 1400, true},
			{"at the last offset", 65528, 8, true},
		} {
			for _, more := range []bool{false, true} {
				if more && c.n%8 != 0 {
					continue
				}
				got, err := r.Add(0, fam.part(1, c.at, more, pattern(c.n)))
				if got != nil || errors.Is(err, ErrTooLong) != c.refuse {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
		if r.Waiting() != 1 {
			t.Errorf("%d datagrams wait, want that of the fragment that was accepted", r.Waiting())
		}
	})
}

// The last fragment fits its own header; with what the first one has more, it does
// not.
func TestHeadersMakeADatagramTooLong(t *testing.T) {
	for _, fam := range families {
		data := pattern(map[string]int{"IPv4": maxPacket - 20, "IPv6": maxPacket}[fam.name])
		const at = 1000
		first := with4(at, func(h *layers.IPv4) {
			h.Flags, h.Options = layers.IPv4MoreFragments, []layers.IPv4Option{{OptionType: 1}, {OptionType: 0}}
		})
		if fam.name == "IPv6" {
			first = with6(16+at, func(h *layers.IPv6) { h.NextHeader = layers.IPProtocolIPv6Destination })
			copy(first[40:], []byte{byte(packet.Fragment), 0, 1, 4, 0, 0, 0, 0, byte(packet.UDP), 0, 0, 1, 0, 0, 0xab, 0xcd})
		}
		r := NewReassembler(Limits{})
		if _, err := r.Add(0, first); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Add(0, fam.part(0xabcd, at, false, data[at:])); got != nil || !errors.Is(err, ErrTooLong) || r.Waiting() != 0 {
			t.Errorf("%s: %d bytes, %v", fam.name, len(got), err)
		}
	}
}

func TestPaddingIsNotPayload(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(21)
		r := NewReassembler(Limits{})
		r.Add(0, append(fam.part(1, 0, true, data[:16]), 1, 2, 3))
		if got, err := r.Add(0, append(fam.part(1, 16, false, data[16:]), 1, 2, 3)); !bytes.Equal(got, fam.whole(1, data)) {
			t.Errorf("% x, %v", got, err)
		}
	})
}

func TestBrokenFragmentsHarmNobody(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		r := NewReassembler(Limits{})
		r.Add(0, fam.part(1, 0, true, data[:16]))
		whole := fam.part(1, 16, false, data[16:])
		for name, p := range map[string][]byte{
			"nothing":                             {},
			"another version":                     append([]byte{0x50}, whole[1:]...),
			"cut off":                             whole[:len(whole)-1],
			"half a header":                       whole[:19],
			"no payload, others follow":           fam.part(1, 16, true, nil),
			"no payload at the end":               fam.part(1, 32, false, nil),
			"no multiple of 8, and others follow": fam.part(1, 16, true, pattern(15)),
		} {
			if got, err := r.Add(0, p); got != nil || !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: % x, %v", name, got, err)
			}
		}
		if got, err := r.Add(0, whole); !bytes.Equal(got, fam.whole(1, data)) {
			t.Errorf("after broken fragments: % x, %v", got, err)
		}
	})
}

// Every way of overlap, with the same bytes too, ends the datagram, and its
// missing fragments do not revive it before its time is over.
func TestOverlapEndsADatagram(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(64)
		other := bytes.Repeat([]byte{0xee}, 64)
		type span struct {
			from, to int
			more     bool
		}
		held := []span{{16, 32, true}, {40, 48, true}}
		for _, c := range []struct {
			name string
			span
			data []byte
			want error
		}{
			{"the same fragment again", span{16, 32, true}, data, nil},
			{"the same place with other bytes", span{16, 32, true}, other, ErrOverlap},
			{"the same place as the last", span{16, 32, false}, data, ErrOverlap},
			{"a part of it", span{16, 24, true}, data, ErrOverlap},
			{"its end", span{24, 32, true}, data, ErrOverlap},
			{"beyond its end", span{24, 40, true}, data, ErrOverlap},
			{"before its start", span{8, 24, true}, data, ErrOverlap},
			{"all of it", span{8, 40, true}, data, ErrOverlap},
			{"two at once", span{16, 48, true}, data, ErrOverlap},
			{"from the start to behind all", span{0, 56, true}, data, ErrOverlap},
			{"as the last, before others' end", span{32, 40, false}, data, ErrLength},
			{"beside it", span{32, 40, true}, data, nil},
			{"before it", span{0, 16, true}, data, nil},
			{"as the last", span{48, 64, false}, data, nil},
		} {
			r := NewReassembler(Limits{Timeout: time.Second})
			for _, s := range held {
				r.Add(0, fam.part(5, s.from, s.more, data[s.from:s.to]))
			}
			if got, err := r.Add(0, fam.part(5, c.from, c.more, c.data[c.from:c.to])); got != nil || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if c.want == nil {
				continue
			}
			for _, s := range []span{{0, 16, true}, {32, 40, true}, {48, 64, false}} {
				if got, err := r.Add(999*time.Millisecond, fam.part(5, s.from, s.more, data[s.from:s.to])); got != nil || !errors.Is(err, c.want) {
					t.Errorf("%s, then others: %d bytes, %v, want %v", c.name, len(got), err, c.want)
				}
			}
			r.Expire(time.Second)
			if r.Waiting() != 0 || r.Counters() != (Counters{}) {
				t.Errorf("%s: after its time %d wait, %+v", c.name, r.Waiting(), r.Counters())
			}
		}
	})
}

func TestFragmentsAgreeOnTheLength(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(64)
		for name, second := range map[string][]byte{
			"one behind the last":    fam.part(1, 32, true, data[32:40]),
			"a last behind the last": fam.part(1, 32, false, data[32:40]),
			"a last before the last": fam.part(1, 8, false, data[8:16]),
		} {
			r := NewReassembler(Limits{})
			r.Add(0, fam.part(1, 24, false, data[24:32]))
			if _, err := r.Add(0, second); !errors.Is(err, ErrLength) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestDatagramsAreKeptApart(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		first, last := fam.part(1, 0, true, data[:16]), fam.part(1, 16, false, data[16:])
		for name, at := range map[string]int{
			"source":         fam.src,
			"destination":    map[string]int{"IPv4": 16, "IPv6": 24}[fam.name],
			"identification": map[string]int{"IPv4": 5, "IPv6": 47}[fam.name],
		} {
			r := NewReassembler(Limits{})
			r.Add(0, first)
			p := bytes.Clone(last)
			p[at]++
			if got, err := r.Add(0, p); got != nil || err != nil || r.Waiting() != 2 {
				t.Errorf("another %s: %d bytes, %v, %d wait", name, len(got), err, r.Waiting())
			}
		}
	})
	// The protocol belongs to the key in IPv4, not in IPv6, where the first fragment says it.
	data := pattern(32)
	for _, fam := range families {
		r := NewReassembler(Limits{})
		r.Add(0, fam.part(1, 0, true, data[:16]))
		p := fam.part(1, 16, false, data[16:])
		p[map[string]int{"IPv4": 9, "IPv6": 40}[fam.name]] = byte(packet.TCP)
		got, err := r.Add(0, p)
		if want := fam.name == "IPv6"; (got != nil) != want || err != nil || want && !bytes.Equal(got, fam.whole(1, data)) {
			t.Errorf("%s with another protocol: % x, %v", fam.name, got, err)
		}
	}
}

func TestTimeRunsFromTheFirstFragment(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(48)
		r := NewReassembler(Limits{Timeout: time.Second})
		r.Add(10*time.Second, fam.part(1, 0, true, data[:16]))
		r.Add(10*time.Second+900*time.Millisecond, fam.part(1, 16, true, data[16:32])) // does not prolong it
		r.Add(10*time.Second+900*time.Millisecond, fam.part(2, 0, true, data[:16]))
		r.Expire(11*time.Second - 1)
		if r.Waiting() != 2 {
			t.Fatalf("%d wait before the time is over, want 2", r.Waiting())
		}
		if got, err := r.Add(11*time.Second, fam.part(1, 32, false, data[32:])); got != nil || err != nil {
			t.Errorf("too late, yet whole: %v", err)
		}
		if r.Waiting() != 2 || r.Counters() != (Counters{TimedOut: 1}) {
			t.Errorf("%d wait, %+v", r.Waiting(), r.Counters())
		}
	})
}

func TestFloodsAreBounded(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		r := NewReassembler(Limits{Datagrams: 16, PerSource: 4, Timeout: time.Hour})
		flood := fam.part(1, 8, true, data[8:16])
		for i := range 10000 {
			if got, err := r.Add(0, fam.from(flood, i)); got != nil || err != nil || r.Waiting() > 16 {
				t.Fatalf("%d wait; %v", r.Waiting(), err)
			}
			if i%12 == 0 { // between its two fragments, an honest sender meets a few of the flood
				first, last := fam.part(7, 0, true, data[:16]), fam.part(7, 16, false, data[16:])
				r.Add(0, first)
				for j := range 10 {
					r.Add(0, fam.from(flood, 20000+10*i+j))
				}
				if got, err := r.Add(0, last); !bytes.Equal(got, fam.whole(7, data)) {
					t.Fatalf("an honest datagram did not come together in a flood: %v", err)
				}
			}
		}
		if r.Waiting() != 16 || len(r.byKey) != 16 || len(r.sources) > 16 || len(r.free) != 1 {
			t.Errorf("%d wait, %d keys, %d sources, %d free", r.Waiting(), len(r.byKey), len(r.sources), len(r.free))
		}
	})
}

func TestOneSourceTakesNoMoreThanItsShare(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		r := NewReassembler(Limits{Datagrams: 16, PerSource: 4, Timeout: time.Hour})
		for i := range 12 {
			r.Add(0, fam.from(fam.part(1, 0, true, data[:16]), 1000+i))
		}
		for id := range 1000 {
			p := fam.from(fam.part(uint16(id), 8, true, data[8:16]), 1)
			if fam.name == "IPv6" {
				p[fam.src+15] = byte(id) // any host of a /64
			}
			r.Add(0, p)
		}
		if r.Waiting() != 16 || r.Counters() != (Counters{Evicted: 996}) {
			t.Errorf("%d wait, %+v", r.Waiting(), r.Counters())
		}
		for i := range 12 {
			if got, _ := r.Add(0, fam.from(fam.part(1, 16, false, data[16:]), 1000+i)); got == nil {
				t.Errorf("source %d lost its datagram to another's flood", i)
			}
		}
		if len(r.sources) != 1 {
			t.Errorf("%d sources are counted, want 1", len(r.sources))
		}
	})
}

func TestCongestionIsNotLost(t *testing.T) {
	const none, ect1, ect0, ce = 0, 1, 2, 3
	for _, c := range []struct {
		name                string
		first, second, want byte
		err                 error
	}{
		{"none", none, none, none, nil},
		{"as the first", ect0, ect0, ect0, nil},
		{"two capable ones", ect1, ect0, ect1, nil},
		{"the first saw it", ce, ect0, ce, nil},
		{"another saw it", ect0, ce, ce, nil},
		{"both saw it", ce, ce, ce, nil},
		{"capable and not", none, ect0, none, nil},
		{"seen, and not capable", none, ce, 0, ErrECN},
		{"not capable, and seen", ce, none, 0, ErrECN},
	} {
		eachFamily(t, func(t *testing.T, fam family) {
			mark := func(p []byte, ecn byte) []byte {
				if fam.name == "IPv4" {
					p[1] |= ecn
				} else {
					p[1] |= ecn << 4
				}
				return p
			}
			data := pattern(32)
			r := NewReassembler(Limits{})
			r.Add(0, mark(fam.part(1, 0, true, data[:16]), c.first))
			got, err := r.Add(0, mark(fam.part(1, 16, false, data[16:]), c.second))
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
			if c.err != nil {
				return
			}
			want := mark(fam.whole(1, data), c.want)
			if fam.name == "IPv4" {
				binary.BigEndian.PutUint16(want[10:], 0)
				binary.BigEndian.PutUint16(want[10:], packet.Checksum(want[:20]))
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\n got  % x\n want % x", c.name, got, want)
			}
		})
	}
}

func TestWholePacketsPass(t *testing.T) {
	r := NewReassembler(Limits{})
	for _, p := range [][]byte{with4(20, nil), with4(20, func(h *layers.IPv4) { h.Flags = layers.IPv4DontFragment }), with6(20, nil)} {
		if got, err := r.Add(0, p); err != nil || len(got) != len(p) || &got[0] != &p[0] {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// RFC 6946: a fragment that is all of its packet has nothing to do with others of
// the same key, whole or abandoned.
func TestAtomicFragmentsStandAlone(t *testing.T) {
	data := pattern(24)
	r := NewReassembler(Limits{Datagrams: 1})
	r.Add(0, part6(1, 0, true, data[:16]))
	for _, n := range []int{24, 16, 1, 0} {
		got, err := r.Add(0, part6(1, 0, false, data[:n]))
		if want := families[1].whole(1, data[:n]); !bytes.Equal(got, want) {
			t.Errorf("%d bytes of payload: % x, %v, want % x", n, got, err, want)
		}
	}
	if got, err := r.Add(0, part6(1, 16, false, data[16:])); !bytes.Equal(got, families[1].whole(1, data)) {
		t.Errorf("the datagram that waited: % x, %v", got, err)
	}
}

func TestHeadersBeforeAndAfterTheFragmentHeader(t *testing.T) {
	dest := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	const options, fragment, udp = byte(packet.DestOptions), byte(packet.Fragment), byte(packet.UDP)
	join := func(first byte, parts ...[]byte) []byte {
		rest := bytes.Join(parts, nil)
		p := with6(len(rest), func(h *layers.IPv6) { h.NextHeader = layers.IPProtocol(first) })
		copy(p[40:], rest)
		return p
	}
	frag := func(next, offset, flag byte) []byte { return []byte{next, 0, 0, offset | flag, 0, 0, 0, 9} }
	first := join(options, dest(fragment), frag(options, 0, 1), dest(udp), pattern(8))
	last := join(options, dest(fragment), frag(options, 16, 0), pattern(5))
	want := join(options, dest(options), dest(udp), pattern(8), pattern(5))
	for _, order := range [][][]byte{{first, last}, {last, first}} {
		r := NewReassembler(Limits{})
		r.Add(0, order[0])
		if got, err := r.Add(0, order[1]); !bytes.Equal(got, want) {
			t.Errorf("\n got  % x, %v\n want % x", got, err, want)
		}
	}
	long := append([]byte{fragment, 31, 1, 254}, make([]byte, 252)...) // 256 bytes of options
	for name, p := range map[string][]byte{
		"a first fragment without all headers":      join(fragment, frag(options, 0, 1), dest(options)),
		"a chain that is cut off":                   join(options, []byte{fragment, 1, 1, 4, 0, 0, 0, 0}),
		"a chain that ends before it starts":        join(options),
		"half a Fragment header":                    join(fragment, []byte{udp, 0, 0, 0}),
		"more headers than there is room for":       join(options, long, frag(udp, 8, 0), pattern(8)),
		"extension headers longer than the payload": join(options, []byte{fragment, 255, 0, 0, 0, 0, 0, 0}),
	} {
		r := NewReassembler(Limits{})
		if got, err := r.Add(0, p); got != nil || !errors.Is(err, ErrMalformed) || r.Waiting() != 0 {
			t.Errorf("%s: % x, %v", name, got, err)
		}
	}
}

func TestIPv4OptionsOfTheFirstFragmentStay(t *testing.T) {
	options := func(h *layers.IPv4) { h.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 0}} }
	first := with4(16, func(h *layers.IPv4) { options(h); h.Flags = layers.IPv4MoreFragments })
	last := part4(0xabcd, 16, false, pattern(21)[16:])
	for _, order := range [][][]byte{{first, last}, {last, first}} {
		r := NewReassembler(Limits{})
		r.Add(0, order[0])
		if got, err := r.Add(0, order[1]); !bytes.Equal(got, with4(21, options)) {
			t.Errorf("\n got  % x, %v\n want % x", got, err, with4(21, options))
		}
	}
}

func TestReassemblyAllocatesNothing(t *testing.T) {
	r := NewReassembler(Limits{})
	a, b := with4(3000, nil), with6(3000, nil)
	s4, s6 := must(IPv4(a, 1500)), must(IPv6(b, 1500, 1))
	var all [][]byte
	for _, s := range []Split{s4, s6} {
		all = append(all, fragments(t, s, nil)...)
	}
	if n := testing.AllocsPerRun(1000, func() {
		for _, p := range all {
			r.Add(0, p)
		}
	}); n != 0 {
		t.Errorf("%v allocations for two datagrams", n)
	}
	if c := r.Counters(); c.Whole < 2000 {
		t.Errorf("%+v", c)
	}
}
