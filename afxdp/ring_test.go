package afxdp

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeRing returns a ring in ordinary memory whose indices begin at start.
func fakeRing(size int, start uint32) ring[uint64] {
	produced, consumed, flags := start, start, uint32(0)
	return ring[uint64]{producer: &produced, consumer: &consumed, flags: &flags, descs: make([]uint64, size)}
}

// starts lists initial indices: zero, and values that wrap at 2^32 during a test.
var starts = []uint32{0, 5, 1<<32 - 1, 1<<32 - 3, 1<<32 - 5, 1<<31 - 2}

// TestRing passes numbers from a producer to a consumer of one ring in batches of every size: each
// arrives once and in order.
func TestRing(t *testing.T) {
	for _, start := range starts {
		for batch := uint32(1); batch <= 9; batch++ {
			t.Run(fmt.Sprintf("start %#x batch %d", start, batch), func(t *testing.T) {
				r := fakeRing(8, start)
				p, c := newProdRing(r), newConsRing(r)
				var in, out uint64
				for out < 100 {
					n := p.reserve(batch)
					if want := min(batch, 8); n != want {
						t.Fatalf("reserve(%d) of an empty ring = %d, want %d", batch, n, want)
					}
					for i := range n {
						p.set(i, in)
						in++
					}
					if got := c.peek(1); got != 0 {
						t.Fatalf("%d entries available before they were submitted", got)
					}
					p.submit(n)
					if got := r.level(); got != n {
						t.Fatalf("level = %d after %d entries were submitted", got, n)
					}
					if got := c.peek(100); got != n {
						t.Fatalf("peek = %d after %d entries were submitted", got, n)
					}
					for i := range n {
						if got := c.at(i); got != out {
							t.Fatalf("entry %d is %d", out, got)
						}
						out++
					}
					c.release(n)
				}
			})
		}
	}
}

func TestRingFull(t *testing.T) {
	for _, start := range starts {
		r := fakeRing(4, start)
		p, c := newProdRing(r), newConsRing(r)
		steps := []struct {
			rule            string
			submit, release uint32
			reserve, avail  uint32 // afterwards, of 10 asked for
		}{
			{"an empty ring gives all its entries", 0, 0, 4, 0},
			{"a partial reservation is what is left", 3, 0, 1, 3},
			{"a full ring gives none", 1, 0, 0, 4},
			{"and none when asked again", 0, 0, 0, 4},
			{"released entries can be reserved", 0, 1, 1, 3},
			{"a ring emptied gives all again", 0, 3, 4, 0},
			{"reserving less than submitted before wraps", 4, 4, 4, 0},
		}
		for _, s := range steps {
			if n := p.reserve(s.submit); n != s.submit {
				t.Fatalf("start %#x: %s: reserve(%d) = %d", start, s.rule, s.submit, n)
			}
			p.submit(s.submit)
			c.peek(s.release)
			c.release(s.release)
			if n := p.reserve(10); n != s.reserve {
				t.Errorf("start %#x: %s: reserve = %d, want %d", start, s.rule, n, s.reserve)
			}
			if n := c.peek(10); n != s.avail {
				t.Errorf("start %#x: %s: peek = %d, want %d", start, s.rule, n, s.avail)
			}
		}
	}
}

// TestRingReservationUnused reserves without submitting, which changes nothing.
func TestRingReservationUnused(t *testing.T) {
	r := fakeRing(4, 0)
	p := newProdRing(r)
	for range 3 {
		if n := p.reserve(4); n != 4 {
			t.Fatalf("reserve = %d, want 4", n)
		}
	}
	p.set(0, 7)
	p.submit(1)
	if *r.producer != 1 || r.descs[0] != 7 || r.descs[1] != 0 {
		t.Errorf("1 of 4 reserved entries submitted: produced %d, entries %v", *r.producer, r.descs)
	}
}

// TestRingCachedIndex changes the other side's index: it is loaded when the cached one is used up,
// and not before.
func TestRingCachedIndex(t *testing.T) {
	for _, start := range starts {
		r := fakeRing(4, start)
		p := newProdRing(r)
		p.submit(p.reserve(3))
		*r.consumer += 3
		if n := p.reserve(1); n != 1 || p.cachedCons != start+4 {
			t.Errorf("start %#x: reserve(1) with 1 known to be free = %d: the shared index was read", start, n)
		}
		if n := p.reserve(10); n != 4 {
			t.Errorf("start %#x: reserve(10) with 1 known to be free and 4 in truth = %d", start, n)
		}

		r = fakeRing(4, start)
		c := newConsRing(r)
		*r.producer++
		if n := c.peek(4); n != 1 {
			t.Errorf("start %#x: peek = %d, want 1", start, n)
		}
		*r.producer += 2
		if n := c.peek(1); n != 1 || c.cachedProd != start+1 {
			t.Errorf("start %#x: peek(1) with 1 known = %d: the shared index was read", start, n)
		}
		if n := c.peek(10); n != 3 {
			t.Errorf("start %#x: peek(10) with 1 known and 3 in truth = %d", start, n)
		}
	}
}

// TestRingStartsWhereTheKernelStands maps rings that were used before.
func TestRingStartsWhereTheKernelStands(t *testing.T) {
	r := fakeRing(4, 1<<32-2)
	*r.producer = 1 // three entries wait
	copy(r.descs, []uint64{30, 0, 10, 20})
	p, c := newProdRing(r), newConsRing(r)
	if n := p.reserve(4); n != 1 {
		t.Errorf("reserve with 3 of 4 entries taken = %d, want 1", n)
	}
	if n := c.peek(4); n != 3 {
		t.Fatalf("peek with 3 entries waiting = %d, want 3", n)
	}
	for i, want := range []uint64{10, 20, 30} {
		if got := c.at(uint32(i)); got != want {
			t.Errorf("entry %d = %d, want %d", i, got, want)
		}
	}
}

func TestRingNeedsWakeup(t *testing.T) {
	r := fakeRing(4, 0)
	p := newProdRing(r)
	for _, c := range []struct {
		flags uint32
		want  bool
	}{{0, false}, {unix.XDP_RING_NEED_WAKEUP, true}, {^uint32(unix.XDP_RING_NEED_WAKEUP), false}} {
		*r.flags = c.flags
		if got := p.needsWakeup(); got != c.want {
			t.Errorf("flags %#x: needsWakeup = %v, want %v", c.flags, got, c.want)
		}
	}
}
