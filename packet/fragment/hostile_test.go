package fragment

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestExcessiveLengthsAreRefused(t *testing.T) {
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

func TestMalformedFragmentsHarmNoDatagram(t *testing.T) {
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

// However a datagram ends without becoming whole, the fragments that were taken in are
// counted, once; one that is refused is not.
func TestLostFragmentsAreCounted(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		for name, end := range map[string]func(*Reassembler){
			"timed out": func(r *Reassembler) { r.Expire(time.Second) },
			"evicted":   func(r *Reassembler) { r.Add(0, fam.part(2, 0, true, data[:8])) },
			"abandoned": func(r *Reassembler) {
				r.Add(0, fam.part(1, 0, true, data[:16]))
				r.Add(0, fam.part(1, 24, false, data[24:]))
				r.Expire(time.Second)
			},
		} {
			r := NewReassembler(Limits{Datagrams: 1, Timeout: time.Second})
			r.Add(0, fam.part(9, 0, true, data[:16]))
			r.Add(0, fam.part(9, 16, false, data[16:])) // whole
			r.Add(0, fam.part(1, 0, true, data[:8]))
			r.Add(0, fam.part(1, 8, true, data[8:16]))
			if n := r.Lost(); n != 0 {
				t.Errorf("%s: %d fragments are lost before", name, n)
			}
			if end(r); r.Lost() != 2 {
				t.Errorf("%s: %d fragments are lost, want 2", name, r.Lost())
			}
		}
	})
}

func TestSourcesAreLimited(t *testing.T) {
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
