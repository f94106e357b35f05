package trie

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

// A table without enough free nodes rejects a route unchanged, and still accepts routes
// that need fewer nodes.
func TestInsertIntoFullTableLeavesItUnchanged(t *testing.T) {
	table := New(128)
	insert := func(s string, nh lookup.NextHopID) error { return table.Insert(netip.MustParsePrefix(s), nh) }
	require.NoError(t, insert("2001:db8::/32", 1))
	im := table.Image()
	all := im.words
	im.words = im.words[:im.end+2*Pitch]
	defer func() { im.words = all }()
	before := slices.Clone(im.words)
	if err := insert("2001:db8:1:2::/64", 2); err == nil || !strings.Contains(err.Error(), "the table is full") {
		t.Errorf("a route that needs 4 nodes of 2: %v", err)
	}
	if !slices.Equal(before, im.words) || table.Len() != 1 {
		t.Error("a rejected route changed the table")
	}
	if err := insert("2001:db8:1::/48", 3); err != nil {
		t.Error(err)
	}
	if err := insert("2002:db8:1::/48", 4); err == nil {
		t.Error("a route was accepted without a free node")
	}
	if err := insert("2001:db8:100::/40", 5); err != nil {
		t.Error(err)
	}
	if _, nh, _ := table.LookupPrefix(netip.MustParseAddr("2001:db8:1::1")); nh != 3 {
		t.Errorf("next hop %d, want 3", nh)
	}
}

// A table under constant change needs memory for its largest state and one batch of
// retired nodes.
func TestRetiredNodesAreReused(t *testing.T) {
	table := New(32)
	stay, flap := netip.MustParsePrefix("10.0.0.0/25"), netip.MustParsePrefix("10.1.0.128/25")
	require.NoError(t, table.Insert(stay, 1))
	for range 100 * reuseBatch {
		require.NoError(t, table.Insert(flap, 2))
		table.Delete(flap)
	}
	im := table.Image()
	if n := nodeCount(im.end); n > reuseBatch+2 {
		t.Errorf("%d nodes were allocated for two routes", n)
	}
	if n := im.Generation(); n < 90 || n > 110 {
		t.Errorf("the generation is %d, want about 100", n)
	}
	bytes := im.Bytes()
	table.Delete(stay)
	if after := im.Bytes(); after >= bytes || after > 3*hostmem.HugePage {
		t.Errorf("an empty table keeps %d bytes of %d", after, bytes)
	}
}

// A reader that is still in a node when the node is reused sees a changed generation.
func TestNodeReuseChangesGeneration(t *testing.T) {
	table, rnd := New(32), rand.New(rand.NewPCG(7, 7))
	slot := func(i int) uint32 { return uint32(10<<16 + i) }
	prefix := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 25)
	}
	const slots = 1000
	type visit struct{ slot, generation uint32 }
	visits := map[uint32]visit{} // last visit by node
	reused := 0
	for range 50_000 {
		i := rnd.IntN(slots)
		if table.Delete(prefix(i)) {
			continue
		}
		require.NoError(t, table.Insert(prefix(i), 1))
		im := table.Image()
		n, now := node(im.words[slot(i)]), visit{slot(i), im.Generation()}
		if then, ok := visits[n]; ok && then.slot != now.slot {
			if reused++; then.generation == now.generation {
				t.Fatalf("node %d moved from slot %d to %d in the same generation", n, then.slot, now.slot)
			}
		}
		visits[n] = now
	}
	if reused < 10_000 {
		t.Errorf("nodes were reused only %d times", reused)
	}
}

// Images are outside the Go heap, so the garbage collector's pacing does not limit the
// number of unused ones.
func TestLoadUnmapsUnusedImages(t *testing.T) {
	table, nh := New(128), lookup.NextHopID(1)
	before := addressSpace(t)
	for i := range 200 {
		err := table.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) {
			_ = yield(netip.MustParsePrefix("2001:db8::/48"), 1) && yield(netip.MustParsePrefix("2002:db8::/48"), nh)
		})
		if (err != nil) != (nh == lookup.Miss) {
			t.Fatal(err)
		}
		if images := (addressSpace(t) - before) / (MaxWords * wordBytes); images > 20 {
			t.Fatalf("after %d loads %d images are mapped", i+1, images)
		}
		nh = 1 - nh // valid and invalid alternately
	}
}

// The words stay mapped during View if the garbage collector runs and nothing else refers
// to the table.
func TestViewKeepsWordsMapped(t *testing.T) {
	table := New(32)
	require.NoError(t, table.Insert(netip.MustParsePrefix("0.0.0.0/0"), 1))
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("the words were unmapped during View: %v", fault)
		}
	}()
	if err := table.View(func(words []uint32) error {
		for range 3 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond) // for the cleanups
		}
		if words[Default] == 0 {
			return errors.New("the default route is missing")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// addressSpace returns the size of this process's mappings in bytes.
func addressSpace(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var pages int
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
