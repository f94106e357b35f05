package trie

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

// replica is a Follower with a copy in host memory.
type replica struct {
	words    []uint32
	replaced int
	check    func(Patch) // called after each patch
}

func (r *replica) Replace(words []uint32) { r.words, r.replaced = slices.Clone(words), r.replaced+1 }

func (r *replica) Patch(p Patch) {
	if end := int(p.At + p.Count); end > len(r.words) {
		r.words = append(r.words, make([]uint32, end-len(r.words))...)
	}
	for i := range r.words[p.At : p.At+p.Count] {
		r.words[int(p.At)+i] = p.Word
	}
	if r.check != nil {
		r.check(p)
	}
}

// equals reports whether the copy equals the image, whose words beyond the copy must be 0.
func (r *replica) equals(table *Table) bool {
	return nil == table.View(func(words []uint32) error {
		n := len(r.words)
		if n > len(words) || !slices.Equal(r.words, words[:n]) || slices.ContainsFunc(words[n:], func(w uint32) bool { return w != 0 }) {
			return errors.New("the copy differs")
		}
		return nil
	})
}

func (r *replica) lookup(a netip.Addr) uint32 {
	im, k := &Image{words: r.words}, keyOf(a)
	return im.walk(&k, 0)
}

// WalkCopy returns the results of Walk, and an error for an invalid or unreadable copy.
func TestWalkCopyAgreesWithWalk(t *testing.T) {
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(6, uint64(bits)))
		table, want, r := New(bits), routes{}, &replica{}
		table.Follow(r)
		for range race.Fewer(2000) {
			change(t, rnd, table, want)
		}
		read := func(i uint32) (uint32, error) { return r.words[i], nil }
		found := 0
		for range 5000 {
			a := randomAddr(rnd, bits)
			length, nh, err := WalkCopy(0, a, read)
			if wantLength, wantNH := table.Walk(keyOf(a)); err != nil || length != wantLength || nh != wantNH {
				t.Fatalf("%v: /%d, next hop %d, %v; want /%d, next hop %d", a, length, nh, err, wantLength, wantNH)
			}
			if nh != lookup.Miss {
				found++
			}
		}
		if found < 500 {
			t.Errorf("only %d addresses have a route", found)
		}
		a := randomAddr(rnd, bits)
		if _, _, err := WalkCopy(0, a, func(uint32) (uint32, error) { return Reference, nil }); err == nil || !strings.Contains(err.Error(), "beyond the end of "+a.String()) {
			t.Errorf("a copy of references alone: %v", err)
		}
		if _, _, err := WalkCopy(0, a, func(uint32) (uint32, error) { return 0, errors.New("unreadable") }); err == nil || err.Error() != "unreadable" {
			t.Errorf("a copy that cannot be read: %v", err)
		}
	}
}

// Copies stay equal to the image through changes and loads, also if they start later or
// if another follower ends.
func TestFollowersCopyEveryChange(t *testing.T) {
	many := race.Fewer(5000)
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(3, uint64(bits)))
		table, want, r, late := New(bits), routes{}, &replica{}, &replica{}
		end := table.Follow(r)
		for n := range many {
			change(t, rnd, table, want)
			if (n+1)%(many/5) == 0 && !r.equals(table) {
				t.Fatalf("after %d changes the copy differs", n)
			}
			if n == many/2 {
				table.Follow(late)
			}
		}
		if !late.equals(table) {
			t.Error("the copy started later differs")
		}
		if r.replaced != 1 || late.replaced != 1 {
			t.Errorf("the copies were replaced %d and %d times", r.replaced, late.replaced)
		}
		require.NoError(t, table.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) {
			for p, nh := range want {
				if !yield(p, nh) {
					return
				}
			}
		}))
		if !r.equals(table) || r.replaced != 2 || !late.equals(table) || late.replaced != 2 {
			t.Error("after a load the copies differ")
		}
		end()
		before := slices.Clone(r.words)
		for range 10 {
			change(t, rnd, table, want)
		}
		if !slices.Equal(r.words, before) {
			t.Error("a follower received patches after its end")
		}
		if !late.equals(table) {
			t.Error("the end of one follower stopped another")
		}
	}
}

// Between any two patches of a change, a lookup in the copy returns the route before or
// after the change.
func TestEveryPatchLeavesTheOldOrTheNewRoute(t *testing.T) {
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(4, uint64(bits)))
		table, want, r := New(bits), routes{}, &replica{}
		table.Follow(r)
		for range 2000 {
			change(t, rnd, table, want)
		}
		patches := 0
		for range 500 {
			addrs := make([]netip.Addr, 20)
			before := make([]uint32, len(addrs))
			for i := range addrs {
				addrs[i] = randomAddr(rnd, bits)
				before[i] = r.lookup(addrs[i])
			}
			var seen [][]uint32
			r.check = func(Patch) {
				now := make([]uint32, len(addrs))
				for i, a := range addrs {
					now[i] = r.lookup(a)
				}
				seen = append(seen, now)
			}
			change(t, rnd, table, want)
			r.check = nil
			patches += len(seen)
			for _, now := range seen {
				for i, a := range addrs {
					if after := r.lookup(a); now[i] != before[i] && now[i] != after {
						t.Fatalf("%v: %#x in between, %#x before, %#x after", a, now[i], before[i], after)
					}
				}
			}
		}
		if patches < 200 {
			t.Fatalf("only %d patches were seen", patches)
		}
	}
}

// A lookup reads the address's word and the default route's word, in any order, with
// changes in between. If one of the two routes always exists, a lookup finds a route or
// a changed generation.
func TestDefaultRouteChangesNeverCauseMisses(t *testing.T) {
	all, narrow := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.0.0.0/24")
	k := keyOf(narrow.Addr())
	at, _ := k.start(0)
	type state struct{ own, fallback, generation uint32 }
	var states []state
	table, r := New(32), &replica{}
	table.Follow(r)
	insert := func(p netip.Prefix, nh lookup.NextHopID) {
		require.NoError(t, table.Insert(p, nh))
	}
	insert(all, 1)
	r.check = func(Patch) {
		states = append(states, state{r.words[at], r.words[Default], r.words[Generation]})
	}
	for range 2 {
		insert(narrow, 2)
		table.Delete(all)
		insert(all, 1)
		table.Delete(narrow)
	}
	for i, first := range states {
		for _, second := range states[i:] {
			if first.generation == second.generation && (first.own|second.fallback == 0 || first.fallback|second.own == 0) {
				t.Fatalf("a lookup that reads %+v, then %+v finds no route", first, second)
			}
		}
	}
	if len(states) < 8 {
		t.Errorf("only %d states were seen", len(states))
	}
}
