package fib

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
)

func tag(t testing.TB, etherType, vid uint16) Tag {
	t.Helper()
	tag, ok := MakeTag(etherType, vid)
	if !ok || tag.EtherType() != etherType || tag.VID() != vid&0xfff {
		t.Fatalf("tag %#x %d is %v", etherType, vid, tag)
	}
	return tag
}

// The tables agree with a map after any sequence of additions and deletions.
func TestVLANsAgreeWithMap(t *testing.T) {
	type key struct {
		parent uint16
		tag    Tag
	}
	f, rnd := New(1), rand.New(rand.NewPCG(1, 1))
	v := f.VLANs
	v.SetPhysical(4)
	clock := time.Now()
	v.now = func() time.Time { return clock }
	model, carriers := map[key]uint16{}, map[uint16]Carrier{}
	for step := range 60_000 {
		k := key{uint16(rnd.IntN(4)), tag(t, []uint16{0x8100, 0x88a8}[rnd.IntN(2)], uint16(rnd.IntN(4096)))}
		if n, ok := model[k]; ok || len(model) > 3000 && rnd.IntN(2) == 0 {
			for !ok {
				for k, n = range model {
					ok = true
					break
				}
			}
			v.Delete(n, k.parent, k.tag)
			delete(model, k)
			delete(carriers, n)
		} else {
			n, err := v.Take()
			if err != nil {
				clock = clock.Add(reuseAfter)
				n, err = v.Take()
			}
			require.NoError(t, err)
			if carriers[n] != 0 {
				t.Fatalf("step %d: number %d is taken twice", step, n)
			}
			require.NoError(t, v.Add(n, k.parent, k.tag))
			model[k], carriers[n] = n, v.Carrier(n)
		}
		if step%1000 != 0 {
			continue
		}
		for k, want := range model {
			if got, ok := v.Child(k.parent, k.tag); !ok || got != want {
				t.Fatalf("step %d: port %d, %v is %d %v, want %d", step, k.parent, k.tag, got, ok, want)
			}
			if c := v.Carrier(want); c.Port() != k.parent || c.Tags() != 1 || c.Tag(0) != k.tag {
				t.Fatalf("step %d: carrier %#x of port %d, %v", step, c, k.parent, k.tag)
			}
		}
		for range 1000 {
			k := key{uint16(rnd.IntN(5)), Tag(rnd.IntN(1 << 13))}
			if got, ok := v.Child(k.parent, k.tag); ok != (model[k] != 0) || got != model[k] {
				t.Fatalf("step %d: port %d, %v is %d %v, want %d", step, k.parent, k.tag, got, ok, model[k])
			}
		}
	}
}

func TestNestedVLANHasBothTags(t *testing.T) {
	v := New(1).VLANs
	v.SetPhysical(3)
	outer, inner := tag(t, 0x88a8, 100), tag(t, 0x8100, 4095)
	s, _ := v.Take()
	require.NoError(t, v.Add(s, 2, outer))
	c, _ := v.Take()
	require.NoError(t, v.Add(c, s, inner))
	if w := v.Carrier(c); w.Port() != 2 || w.Tags() != 2 || w.Tag(0) != outer || w.Tag(1) != inner {
		t.Errorf("carrier %#x: port %d, %d tags, %v and %v", w, w.Port(), w.Tags(), w.Tag(0), w.Tag(1))
	}
	third, _ := v.Take()
	if v.Add(third, c, inner) == nil {
		t.Error("a frame may have three tags")
	}
	if !v.Tagged(2) || v.Tagged(1) || v.Tagged(0) {
		t.Error("the wrong ports receive tags")
	}
}

// A freed number is reused when workers have passed it and packets that wait have left, not before.
func TestVLANNumberIsReusedLate(t *testing.T) {
	f := New(1)
	v, clock := f.VLANs, time.Now()
	v.now = func() time.Time { return clock }
	v.SetPhysical(batch.MaxPorts - 1)
	n, err := v.Take()
	require.NoError(t, err)
	require.NoError(t, v.Add(n, 0, 7))
	worker := f.NewReader()
	worker.Hold(worker.Now())
	v.Delete(n, 0, 7)
	if v.Carrier(n) != 0 {
		t.Error("a deleted port transmits")
	}
	refused := func(when string) {
		t.Helper()
		if _, err := v.Take(); !errors.Is(err, ErrFull) {
			t.Errorf("%s, the number is reused: %v", when, err)
		}
	}
	clock = clock.Add(reuseAfter)
	refused("while a worker has packets of the port")
	worker.Release()
	clock = clock.Add(-time.Second)
	refused("while packets can wait")
	clock = clock.Add(time.Second)
	if again, err := v.Take(); err != nil || again != n {
		t.Errorf("number %d, %v, want %d", again, err, n)
	}
}

// Readers find an entry throughout the changes of others.
func TestReadersFindUnchangedVLANs(t *testing.T) {
	v := New(1).VLANs
	v.SetPhysical(1)
	clock := time.Now()
	v.now = func() time.Time { return clock }
	fixed, _ := v.Take()
	require.NoError(t, v.Add(fixed, 0, 4000))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if n, ok := v.Child(0, 4000); !ok || n != fixed {
					t.Errorf("found %d, %v", n, ok)
					return
				}
				if n, ok := v.Child(0, 7); ok && (n == fixed || n == 0) {
					t.Errorf("found %d for another", n)
					return
				}
			}
		}
	})
	for range 50_000 {
		n, err := v.Take()
		require.NoError(t, err)
		require.NoError(t, v.Add(n, 0, 7))
		v.Delete(n, 0, 7)
		clock = clock.Add(reuseAfter)
	}
	close(stop)
	wg.Wait()
}

// The last VLAN of a port returns the memory for all, and the next one gets it again.
func TestPortWithoutVLANsHasNoTable(t *testing.T) {
	v := New(1).VLANs
	v.SetPhysical(1)
	for _, etherType := range []uint16{0x8100, 0x88a8} {
		first, second := tag(t, etherType, 0), tag(t, etherType, 4095)
		for range 2 {
			a, _ := v.Take()
			require.NoError(t, v.Add(a, 0, first))
			b, _ := v.Take()
			require.NoError(t, v.Add(b, 0, second))
			v.Delete(a, 0, first)
			if n, ok := v.Child(0, second); !ok || n != b {
				t.Errorf("%v is %d %v, want %d", second, n, ok, b)
			}
			v.Delete(b, 0, second)
			if c := v.childrenOf(0, first); c != &noChildren {
				t.Errorf("%#x: a port without VLANs has a table", etherType)
			}
		}
	}
	if noChildren != (Children{}) {
		t.Error("the table of all ports without VLANs has changed")
	}
}

// The adjacencies of a port are tagged if its frames have one tag, whether they or the VLAN are added first, until workers
// add all tags. A number that becomes a bond has none.
func TestTagsOfAdjacencies(t *testing.T) {
	f := New(1)
	v := f.VLANs
	v.SetPhysical(1)
	number, err := v.Take()
	require.NoError(t, err)
	before, err := f.NewAdjacency(number)
	require.NoError(t, err)
	f.SetAdjacency(before, number, 0xfedcba987654)
	require.NoError(t, v.Add(number, 0, tag(t, 0x88a8, 0x123)))
	inner, err := v.Take()
	require.NoError(t, err)
	require.NoError(t, v.Add(inner, number, tag(t, 0x8100, 7)))
	after, err := f.NewAdjacency(number)
	require.NoError(t, err)
	two, err := f.NewAdjacency(inner)
	require.NoError(t, err)
	physical, err := f.NewAdjacency(0)
	require.NoError(t, err)
	check := func(what string, word uint32, tagged bool) {
		t.Helper()
		if got := f.Words().Tags().Of(number); got != word {
			t.Errorf("%s: tag word %#x, want %#x", what, got, word)
		}
		for _, a := range []struct {
			id, port uint32
			mac      MAC
			tagged   bool
		}{{before, uint32(number), 0xfedcba987654, tagged}, {after, uint32(number), 0, tagged}, {two, uint32(inner), 0, false}, {physical, 0, 0, false}} {
			if w := f.Adjacency(a.id); w.Tagged() != a.tagged || w.MAC() != a.mac || uint32(w.Port()) != a.port || w.Resolved() != (a.mac != 0) {
				t.Errorf("%s: adjacency %d is %#x", what, a.id, uint64(w))
			}
		}
	}
	check("a VLAN", 0x2301a888, true)
	v.Delete(number, 0, tag(t, 0x88a8, 0x123))
	check("deleted", 0x2301a888, true) // packets may be in flight
	f.Bonds.Add(number)
	check("a bond", 0, false)
	require.NoError(t, v.Add(number, 0, tag(t, 0x8100, 5)))
	check("a VLAN again", 0x05000081, true)
	v.LeaveTags()
	check("tags of workers", 0, false)
	require.NoError(t, v.Add(number, 0, tag(t, 0x8100, 6)))
	check("a VLAN of workers", 0, false)
}
