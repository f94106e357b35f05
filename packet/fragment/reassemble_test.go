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

func TestWholePacketsPass(t *testing.T) {
	r := NewReassembler(Limits{})
	for _, p := range [][]byte{with4(20, nil), with4(20, func(h *layers.IPv4) { h.Flags = layers.IPv4DontFragment }), with6(20, nil)} {
		if got, err := r.Add(0, p); err != nil || len(got) != len(p) || &got[0] != &p[0] {
			t.Errorf("%d bytes, %v", len(got), err)
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
