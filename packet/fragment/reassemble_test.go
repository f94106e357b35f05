package fragment

import (
	"bytes"
	"encoding/binary"
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
func TestFragmentsReassembleInAnyOrder(t *testing.T) {
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

func TestWholePacketsPassUnchanged(t *testing.T) {
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
