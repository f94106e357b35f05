package ipsec

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// bare returns an inbound SA for lookups only.
func bare(spi uint32, dst netip.Addr) *SA {
	return &SA{c: &Config{SPI: spi}, spi: spi, dst: dst, direction: In}
}

func TestSADEqualsAMap(t *testing.T) {
	type key struct {
		spi uint32
		dst netip.Addr
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	addrs := []netip.Addr{outer4[0], outer4[1], outer6[0], outer6[1]}
	var d SAD
	want := map[key]*SA{}
	if d.Lookup(1, outer4[0]) != nil || d.Remove(bare(1, outer4[0])) || d.Len() != 0 {
		t.Error("an empty SAD has something")
	}
	for step := range 60_000 {
		k := key{256 + rnd.Uint32N(3000), addrs[rnd.IntN(len(addrs))]}
		s := want[k]
		if got := d.Lookup(k.spi, k.dst); got != s {
			t.Fatalf("step %d: looked up %v: got %p, want %p", step, k, got, s)
		}
		switch grow := step < 30_000; {
		case s == nil && (grow || rnd.IntN(4) == 0):
			s = bare(k.spi, k.dst)
			want[k] = s
			require.NoError(t, d.Add(s))
		case s != nil && rnd.IntN(2) == 0:
			delete(want, k)
			if !d.Remove(s) || d.Remove(s) {
				t.Fatalf("step %d: %v was not removed once", step, k)
			}
		}
		if d.Len() != len(want) {
			t.Fatalf("step %d: %d associations, want %d", step, d.Len(), len(want))
		}
	}
	found := 0
	for s := range d.All {
		if want[key{s.spi, s.dst}] != s {
			t.Errorf("lists %v, which is not there", s.spi)
		}
		found++
	}
	if found != len(want) || found == 0 {
		t.Errorf("lists %d associations, want %d", found, len(want))
	}
}

func TestSADRejectsDuplicates(t *testing.T) {
	var d SAD
	require.NoError(t, d.Add(bare(256, outer4[0])))
	if err := d.Add(bare(256, outer4[0])); err == nil || !strings.Contains(err.Error(), "has its SPI and destination, 192.0.2.1") {
		t.Errorf("a second one: %v", err)
	}
	if err := d.Add(&SA{c: &Config{}, spi: 300, dst: outer4[0]}); err == nil {
		t.Error("an outbound one was added")
	}
	first := bare(0, outer4[0]) // where the search for SPI 0 begins
	if err := d.Add(first); err != nil || !d.Remove(first) {
		t.Fatal(err)
	}
	if s := d.Lookup(0, netip.Addr{}); s != nil {
		t.Error("finds what marks a removed association")
	}
}

// SAs that stay are found at any time while others are added and removed.
func TestSADReadersSeeChanges(t *testing.T) {
	var d SAD
	stay := make([]*SA, 500)
	for i := range stay {
		stay[i] = bare(uint32(1000+i*7), outer4[i%2])
		require.NoError(t, d.Add(stay[i]))
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for !stop.Load() {
				for _, s := range stay {
					if d.Lookup(s.spi, s.dst) != s {
						t.Error("not found")
						return
					}
				}
			}
		})
	}
	for round := range 20 {
		var guests []*SA
		for i := range 300 {
			s := bare(uint32(100_000+round*1000+i), outer6[0])
			if err := d.Add(s); err != nil {
				t.Error(err)
			}
			guests = append(guests, s)
		}
		for _, s := range guests {
			d.Remove(s)
		}
	}
	stop.Store(true)
	group.Wait()
}

func BenchmarkSADLookup(b *testing.B) {
	var d SAD
	for i := range uint32(10_000) {
		require.NoError(b, d.Add(bare(0xc0000000+i, outer4[0])))
	}
	i := uint32(0)
	for b.Loop() {
		if d.Lookup(0xc0000000+i%10_000, outer4[0]) == nil {
			b.Fatal("not found")
		}
		i += 7919
	}
}
