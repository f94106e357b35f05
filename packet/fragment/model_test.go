package fragment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// modelPiece and modelDatagram are a reassembler's state as the rules name it:
// a list of fragments, looked through at every step.
type modelPiece struct {
	from, to int // in bytes
	more     bool
	data     []byte
}

type modelDatagram struct {
	src, id int
	born    time.Duration
	pieces  []modelPiece
	err     error
}

type model struct {
	limits  Limits
	waiting []*modelDatagram // oldest first
	counts  Counters
}

func (m *model) drop(i int, count *uint64) {
	if m.waiting[i].err == nil {
		*count++
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
}

func (m *model) find(match func(*modelDatagram) bool) int { return slices.IndexFunc(m.waiting, match) }

// add returns the payload of a datagram that became whole.
func (m *model) add(now time.Duration, src, id int, p modelPiece) ([]byte, error) {
	for len(m.waiting) > 0 && now-m.waiting[0].born >= m.limits.Timeout {
		m.drop(0, &m.counts.TimedOut)
	}
	i := m.find(func(d *modelDatagram) bool { return d.src == src && d.id == id })
	if i < 0 {
		ofSource, oldest := 0, 0
		for j, d := range slices.Backward(m.waiting) {
			if d.src == src {
				ofSource, oldest = ofSource+1, j
			}
		}
		if ofSource == m.limits.PerSource {
			m.drop(oldest, &m.counts.Evicted)
		} else if len(m.waiting) == m.limits.Datagrams {
			m.drop(0, &m.counts.Evicted)
		}
		i = len(m.waiting)
		m.waiting = append(m.waiting, &modelDatagram{src: src, id: id, born: now})
	}
	d := m.waiting[i]
	if d.err != nil {
		return nil, d.err
	}
	for _, q := range d.pieces {
		if p.from == q.from && p.to == q.to && p.more == q.more && bytes.Equal(p.data, q.data) {
			return nil, nil
		}
	}
	for _, q := range d.pieces {
		if p.from < (q.to+7)/8*8 && q.from < (p.to+7)/8*8 { // no fragment starts within a unit of 8
			d.err = ErrOverlap
			return nil, d.err
		}
	}
	for _, q := range d.pieces {
		if !p.more && (!q.more || q.to > p.to) || !q.more && p.to > q.to {
			d.err = ErrLength
			return nil, d.err
		}
	}
	d.pieces = append(d.pieces, p)
	slices.SortFunc(d.pieces, func(a, b modelPiece) int { return a.from - b.from })
	var data []byte
	for _, q := range d.pieces {
		if q.from != len(data) {
			return nil, nil
		}
		data = append(data, q.data...)
	}
	if d.pieces[len(d.pieces)-1].more {
		return nil, nil
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	m.counts.Whole++
	return data, nil
}

// Random fragments of few datagrams, most of them fitting together: at every
// step the reassembler answers as the rules say.
func TestReassemblerAgreesWithTheModel(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		var seen Counters
		refused := map[error]uint64{}
		for seed := range uint64(200) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			limits := Limits{Datagrams: 1 + rnd.IntN(5), PerSource: 1 + rnd.IntN(3), Timeout: 50}
			r, m := NewReassembler(limits), &model{limits: limits}
			sources, ids, most := 1+rnd.IntN(4), 1+rnd.IntN(3), 2+rnd.IntN(60)
			data := pattern(most)
			var now time.Duration
			for step := range 500 {
				now += time.Duration(rnd.IntN(5))
				p := modelPiece{from: rnd.IntN((most + 7) / 8)}
				p.from *= 8
				p.to = min(p.from+8*(1+rnd.IntN(3)), most)
				p.more = p.to < most
				p.data = data[p.from:p.to]
				switch rnd.IntN(40) {
				case 0: // ends where others do not
					p.more = false
				case 1:
					if len(p.data)%8 == 0 {
						p.more = true
					}
				case 2:
					p.data = bytes.Repeat([]byte{0xee}, len(p.data))
				}
				if p.from == 0 && !p.more {
					continue // no fragment
				}
				src, id := rnd.IntN(sources), rnd.IntN(ids)
				got, gotErr := r.Add(now, fam.from(fam.part(uint16(id), p.from, p.more, p.data), src))
				want, wantErr := m.add(now, src, id, p)
				refused[wantErr]++
				if want != nil {
					want = fam.from(fam.whole(uint16(id), want), src)
					got = withoutChecksum(got)
					want = withoutChecksum(want)
				}
				if !errors.Is(gotErr, wantErr) || !bytes.Equal(got, want) || r.Waiting() != len(m.waiting) || r.Counters() != m.counts {
					t.Fatalf("seed %d, step %d, %+v of source %d, id %d:\n got  % x, %v, %d wait, %+v\n want % x, %v, %d wait, %+v",
						seed, step, p, src, id, got, gotErr, r.Waiting(), r.Counters(), want, wantErr, len(m.waiting), m.counts)
				}
			}
			seen = Counters{seen.Whole + m.counts.Whole, seen.TimedOut + m.counts.TimedOut, seen.Evicted + m.counts.Evicted}
		}
		t.Logf("%+v, refused %v", seen, refused)
		if min(seen.Whole, seen.TimedOut, seen.Evicted, refused[ErrOverlap], refused[ErrLength]) < 200 {
			t.Errorf("the fragments were not varied enough: %+v, refused %v", seen, refused)
		}
	})
}

// withoutChecksum returns a packet without its IPv4 header checksum, whose source the test changed.
func withoutChecksum(p []byte) []byte {
	p = bytes.Clone(p)
	if len(p) > 0 && p[0]>>4 == 4 {
		clear(p[10:12])
	}
	return p
}

func TestBitmapIsASetOfNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 11))
	const last = maxPacket/unit + 1
	for range 50 {
		var b bitmap
		var plain [last + 1]bool
		for range 5 {
			from := rnd.IntN(last)
			to := min(last, from+rnd.IntN(200))
			if rnd.IntN(10) == 0 {
				to = last
			}
			b.set(from, to)
			for i := from; i < to; i++ {
				plain[i] = true
			}
			from = max(0, from-rnd.IntN(100))
			to = min(last, to+rnd.IntN(100))
			want := 0
			for i := from; i < to; i++ {
				if plain[i] {
					want++
				}
			}
			if got := b.count(from, to); got != want {
				t.Fatalf("count of %d to %d: %d, want %d", from, to, got, want)
			}
			for i := range plain {
				if b.has(i) != plain[i] {
					t.Fatalf("%d is in: %v", i, b.has(i))
				}
			}
		}
	}
}

// Packets of any bytes do no harm: a result is a packet of the length in its header.
func FuzzReassemble(f *testing.F) {
	var seed []byte
	for _, p := range [][]byte{part4(1, 0, true, pattern(16)), part4(1, 16, false, pattern(5)), part6(1, 16, false, pattern(5)), part6(1, 0, true, pattern(16))} {
		seed = append(append(seed, byte(len(p))), p...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReassembler(Limits{Datagrams: 4, PerSource: 2}) // per input, so that a failing one fails alone
		var now time.Duration
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			p := bytes.Clone(b[1 : 1+n])
			b = b[1+n:]
			now += 100 * time.Millisecond
			got, err := r.Add(now, p)
			if err != nil && got != nil {
				t.Fatal("a packet and an error")
			}
			if got != nil && (len(got) < 20 || len(got) != len(p) && len(bare(append(make([]byte, 14), got...))) != len(got)) {
				t.Fatalf("% x of % x", got, p)
			}
			if r.Waiting() > 4 || len(r.free)+len(r.waiting) != 5 || len(r.byKey) != len(r.waiting) {
				t.Fatalf("%d wait, %d are free, %d keys", len(r.waiting), len(r.free), len(r.byKey))
			}
		}
	})
}
