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

	"github.com/warproute/warproute/lookup"
)

// A table whose groups are all taken refuses longer routes and takes shorter ones.
func TestAFullTableIsAsItWas(t *testing.T) {
	table := New(128)
	insert := func(s string, nh lookup.NextHop) error { return table.Insert(netip.MustParsePrefix(s), nh) }
	if err := insert("2001:db8::/32", 1); err != nil {
		t.Fatal(err)
	}
	im := table.Image()
	all := im.words
	im.words = im.words[:im.end+2*Pitch]
	defer func() { im.words = all }()
	before := slices.Clone(im.words)
	if err := insert("2001:db8:1:2::/64", 2); err == nil || !strings.Contains(err.Error(), "the table is full") {
		t.Errorf("a route that needs 4 groups where there are 2: %v", err)
	}
	if !slices.Equal(before, im.words) || table.Len() != 1 {
		t.Error("a refused route has changed the table")
	}
	if err := insert("2001:db8:1::/48", 3); err != nil {
		t.Error(err)
	}
	if err := insert("2002:db8:1::/48", 4); err == nil {
		t.Error("a route was taken for which there is no group")
	}
	if err := insert("2001:db8:100::/40", 5); err != nil {
		t.Error(err)
	}
	if _, nh, _ := table.LookupPrefix(netip.MustParseAddr("2001:db8:1::1")); nh != 3 {
		t.Errorf("next hop %d, want 3", nh)
	}
}

// Groups that come and go are used again, so a table that is changed for ever
// takes no more memory than its largest state and a batch of retired groups.
func TestGroupsAreUsedAgain(t *testing.T) {
	table := New(32)
	stay, flap := netip.MustParsePrefix("10.0.0.0/25"), netip.MustParsePrefix("10.1.0.128/25")
	if err := table.Insert(stay, 1); err != nil {
		t.Fatal(err)
	}
	for range 100 * reuseBatch {
		if err := table.Insert(flap, 2); err != nil {
			t.Fatal(err)
		}
		table.Delete(flap)
	}
	im := table.Image()
	if n := number(im.end); n > reuseBatch+2 {
		t.Errorf("%d groups were made for two routes", n)
	}
	if n := im.Reuses(); n < 90 || n > 110 {
		t.Errorf("the groups were taken back %d times, want about 100", n)
	}
	bytes := im.Bytes()
	table.Delete(stay)
	if after := im.Bytes(); after >= bytes || after > 3*hugePage {
		t.Errorf("an empty table keeps %d bytes of %d", after, bytes)
	}
}

// A reader that came to a group before it was retired, and is still there when it
// has begun another life, finds another count of reuses.
func TestAGroupsNextLifeIsCounted(t *testing.T) {
	table, rnd := New(32), rand.New(rand.NewPCG(7, 7))
	slot := func(i int) uint32 { return uint32(10<<16 + i) }
	prefix := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 25)
	}
	const slots = 1000
	type visit struct{ slot, reuses uint32 }
	visits := map[uint32]visit{} // the last time a group was seen, by group
	lives := 0
	for range 50_000 {
		i := rnd.IntN(slots)
		if table.Delete(prefix(i)) {
			continue
		}
		if err := table.Insert(prefix(i), 1); err != nil {
			t.Fatal(err)
		}
		im := table.Image()
		g, now := group(im.words[slot(i)]), visit{slot(i), im.Reuses()}
		if then, seen := visits[g]; seen && then.slot != now.slot {
			if lives++; then.reuses == now.reuses {
				t.Fatalf("group %d went from slot %d to %d unseen", g, then.slot, now.slot)
			}
		}
		visits[g] = now
	}
	if lives < 10_000 {
		t.Errorf("groups began another life only %d times", lives)
	}
}

// Images are not on Go's heap, so the collector alone would see no need to look
// for those that were replaced or given up.
func TestLoadsDoNotPileUp(t *testing.T) {
	table, nh := New(128), lookup.NextHop(1)
	before := addressSpace(t)
	for i := range 200 {
		err := table.Load(func(yield func(netip.Prefix, lookup.NextHop) bool) {
			_ = yield(netip.MustParsePrefix("2001:db8::/48"), 1) && yield(netip.MustParsePrefix("2002:db8::/48"), nh)
		})
		if (err != nil) != (nh == lookup.Miss) {
			t.Fatal(err)
		}
		if images := (addressSpace(t) - before) / (MaxWords * wordBytes); images > 20 {
			t.Fatalf("after %d loads %d images are mapped", i+1, images)
		}
		nh = 1 - nh // good and bad by turns
	}
}

// What looks at a table's words has them, though nothing else refers to the table and
// the collector runs meanwhile.
func TestWordsThatAreLookedAtAreThere(t *testing.T) {
	table := New(32)
	if err := table.Insert(netip.MustParsePrefix("0.0.0.0/0"), 1); err != nil {
		t.Fatal(err)
	}
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("the words went while they were looked at: %v", fault)
		}
	}()
	if err := table.View(func(words []uint32) error {
		for range 3 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond) // for what clears up behind the collector
		}
		if words[Default] == 0 {
			return errors.New("the default route is not there")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// addressSpace is how many bytes of it this process has mapped.
func addressSpace(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
