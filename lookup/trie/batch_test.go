package trie

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

// batchCase is an address family for the tests of Batched.
type batchCase[A any] struct {
	bits       int
	wide, flap string // deleting flap retires a node
	inWide     A      // in wide, not in flap
	key        func(A) Key
}

var (
	case4 = batchCase[uint32]{32, "10.0.0.0/8", "10.0.0.0/25", 0x0aff0001, func(a uint32) (k Key) {
		binary.BigEndian.PutUint32(k[:], a)
		return k
	}}
	case6 = batchCase[[16]byte]{128, "fd00::/16", "fd00:1::/32", [16]byte{0xfd}, func(a [16]byte) Key { return a }}
)

// table returns a table with the wide route to 7. Its kernel calls before and after around
// each walk, and skips the walk if before returns done.
func (c batchCase[A]) table(t *testing.T, before, after func(dst []lookup.NextHopID) (done bool)) *Batched[A] {
	t.Helper()
	table := NewBatched(c.bits, []Kernel[A]{{"test", func(image []uint32, dst []lookup.NextHopID, src []A) {
		if before(dst) {
			return
		}
		im := &Image{words: image}
		for i := range src {
			k := c.key(src[i])
			dst[i] = nextHop(im.walk(&k, 0))
		}
		after(dst)
	}}})
	require.NoError(t, table.Insert(netip.MustParsePrefix(c.wide), 7))
	return &table
}

// reuse changes routes until the generation changes.
func (c batchCase[A]) reuse(t *testing.T, table *Batched[A]) {
	t.Helper()
	flap := netip.MustParsePrefix(c.flap)
	for before := table.Image().Generation(); table.Image().Generation() == before; {
		require.NoError(t, table.Insert(flap, 8))
		table.Delete(flap)
	}
}

func noHook([]lookup.NextHopID) bool { return false }

func TestLookupBatchRetriesAfterNodeReuse(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { testRetry(t, case4) })
	t.Run("IPv6", func(t *testing.T) { testRetry(t, case6) })
}

func testRetry[A any](t *testing.T, c batchCase[A]) {
	calls := 0
	var table *Batched[A]
	table = c.table(t, func(dst []lookup.NextHopID) bool {
		if calls++; calls > 1 {
			return false
		}
		dst[0] = 999 // as if read from a reused node
		c.reuse(t, table)
		return true
	}, noHook)
	dst := make([]lookup.NextHopID, 1)
	if table.LookupBatch(dst, []A{c.inWide}); dst[0] != 7 || calls != 2 {
		t.Errorf("next hop %d after %d walks, want 7 after 2", dst[0], calls)
	}
}

// A retry repeats at most MaxBatch lookups, so that batches of any length complete.
func TestLongBatchCompletesUnderFrequentReuse(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { testLongBatch(t, case4) })
	t.Run("IPv6", func(t *testing.T) { testLongBatch(t, case6) })
}

func testLongBatch[A any](t *testing.T, c batchCase[A]) {
	walked, calls := 0, 0
	var table *Batched[A]
	table = c.table(t, func([]lookup.NextHopID) bool {
		if calls++; calls > 1000 {
			t.Fatal("LookupBatch does not complete")
		}
		return false
	}, func(dst []lookup.NextHopID) bool {
		if walked += len(dst); walked >= 5000 {
			walked = 0
			c.reuse(t, table)
		}
		return false
	})
	dst := make([]lookup.NextHopID, 100_001)
	if table.LookupBatch(dst, slices.Repeat([]A{c.inWide}, len(dst))); slices.ContainsFunc(dst, func(nh lookup.NextHopID) bool { return nh != 7 }) {
		t.Error("wrong next hops in a long batch")
	}
}

// Kernels in assembly read the address of the image that the table references, and none while another
// kernel is selected.
func TestDirectAddressFollowsLoadsAndKernels(t *testing.T) {
	walk := func([]uint32, []lookup.NextHopID, []uint32) {}
	table := NewBatched(32, []Kernel[uint32]{{AVX512, walk}, {"other", walk}})
	check := func(when string, want bool) {
		t.Helper()
		first := table.direct.first.Load()
		if table.Direct() != want || (first != nil) != want || want && first != &table.Image().words[0] {
			t.Errorf("%s: address %p", when, first)
		}
	}
	load := func() {
		require.NoError(t, table.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) { yield(netip.MustParsePrefix("10.0.0.0/8"), 7) }))
	}
	check("without routes", false)
	require.NoError(t, table.Insert(netip.MustParsePrefix("10.0.0.0/8"), 7))
	check("after the first route", true)
	load()
	check("after a load", true)
	require.NoError(t, table.Use("other"))
	check("with another kernel", false)
	load()
	check("after a load with another kernel", false)
	require.NoError(t, table.Use(AVX512))
	check("with AVX-512 again", true)
}
