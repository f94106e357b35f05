package device

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// fakeGPU builds a fake driver that runs the device code on the host. The kernel named fault
// returns wrong results; "none" runs no kernel.
func fakeGPU(t *testing.T, fault string) string {
	t.Helper()
	return testutil.FakeGPU(t, "../../bench/gpulookup/testdata/fakegpu.c", fault)
}

func openGPU(t *testing.T, driver string) *GPU {
	t.Helper()
	g, err := OpenGPU(driver)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func newSet(t *testing.T, table string, f routes.Family, n int) *routes.Set {
	t.Helper()
	set, err := routes.New(table, f, n, 1)
	require.NoError(t, err)
	return set
}

// agree compares lookups on a driver's GPU with the oracle: the edges of every prefix, and as many
// covered and random destinations.
func agree(t *testing.T, driver string, set *routes.Set) {
	t.Helper()
	g, err := OpenGPU(driver)
	require.NoError(t, err)
	defer g.Close()
	table := trie.New(set.Family.Bits())
	require.NoError(t, table.Load(set.All()))
	on, err := g.Load(table, set.Family == routes.IPv4)
	require.NoError(t, err)
	addrs := slices.Collect(set.Edges())
	for _, kind := range []string{"table", "uniform"} {
		destinations, err := set.Destinations(kind, 1)
		require.NoError(t, err)
		n := set.Len() + 100
		for a := range destinations {
			addrs = append(addrs, a)
			if n--; n == 0 {
				break
			}
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(addrs), func(i, k int) { addrs[i], addrs[k] = addrs[k], addrs[i] })
	hops := make([]lookup.NextHopID, len(addrs)+1)
	hops[len(addrs)] = 77
	require.NoError(t, on.LookupBatch(hops, addrs))
	truth, found := oracle.NewRanges(set.All()), 0
	for i, a := range addrs {
		want, ok := truth.Lookup(a)
		if hops[i] != want {
			t.Fatalf("%v %s, %d routes: %v has next hop %d, want %d", set.Family, set.Name, set.Len(), a, hops[i], want)
		}
		if ok {
			found++
		}
	}
	if hops[len(addrs)] != 77 || found < len(addrs)/4 {
		t.Errorf("%d of %d addresses have a route; %d after the last result", found, len(addrs), hops[len(addrs)])
	}
	for _, n := range []int{0, 1, Threads*Each - 1, Threads*Each + 1} { // stale results of the previous batch differ
		n = min(n, len(addrs))
		few := make([]lookup.NextHopID, n)
		if err := on.LookupBatch(few, addrs[len(addrs)-n:]); err != nil || !slices.Equal(few, hops[len(addrs)-n:len(addrs)]) {
			t.Errorf("the last %d addresses alone: different next hops, or %v", n, err)
		}
	}
}

// kinds are the generated tables.
var kinds = []string{"internet", "nested", "adversarial", "dense"}

func TestLookupBatchAgreesWithOracle(t *testing.T) {
	driver := fakeGPU(t, "")
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		for _, table := range kinds {
			agree(t, driver, newSet(t, table, f, 500))
		}
	}
	agree(t, driver, newSet(t, "internet", routes.IPv4, 40_000)) // more addresses than one launch
}

func TestLookupBatchOfEmptyTableMisses(t *testing.T) {
	g := openGPU(t, fakeGPU(t, ""))
	on, err := g.Load(trie.New(32), true)
	require.NoError(t, err)
	hops := []lookup.NextHopID{5}
	if err := on.LookupBatch(hops, []netip.Addr{netip.MustParseAddr("192.0.2.1")}); err != nil || hops[0] != lookup.Miss {
		t.Errorf("next hop %d, %v", hops[0], err)
	}
}

func TestLookupBatchDetectsMissingResults(t *testing.T) {
	g := openGPU(t, fakeGPU(t, "none"))
	table := trie.New(32)
	require.NoError(t, table.Insert(netip.MustParsePrefix("192.0.2.0/24"), 1))
	on, err := g.Load(table, true)
	require.NoError(t, err)
	err = on.LookupBatch(make([]lookup.NextHopID, 1), []netip.Addr{netip.MustParseAddr("192.0.2.1")})
	if err == nil || err.Error() != "look up on Fake 0: the kernel left addresses without a result" {
		t.Errorf("without a kernel: %v", err)
	}
}

func TestOpenGPUWithoutDriverReportsHint(t *testing.T) {
	_, err := OpenGPU(filepath.Join(t.TempDir(), "libcuda.so.1"))
	if !errors.Is(err, cuda.ErrNoDriver) || !strings.Contains(err.Error(), "install NVIDIA's driver") {
		t.Errorf("without a driver: %v", err)
	}
}

func TestColumnsAreInHostByteOrder(t *testing.T) {
	addresses, lowers := make([]byte, 16), make([]byte, 16)
	Put4(addresses, 1, netip.MustParseAddr("192.0.2.1"))
	if got := binary.NativeEndian.Uint32(addresses[4:]); got != 0xc0000201 {
		t.Errorf("192.0.2.1 is %#x", got)
	}
	Put6(addresses, lowers, 1, netip.MustParseAddr("2001:db8::1"))
	if upper, lower := binary.NativeEndian.Uint64(addresses[8:]), binary.NativeEndian.Uint64(lowers[8:]); upper != 0x20010db8_00000000 || lower != 1 {
		t.Errorf("2001:db8::1 is %#x and %#x", upper, lower)
	}
}

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Launch shape: kernels.go.")
	h.Define("THREADS", Threads, "of a launched block")
	h.Define("LOOKUPS_PER_THREAD", Each, "addresses per thread and step, with all loads in flight")
	h.Struct("columns", Columns{}, "image", "addresses", "lowers", "hops")
	h.Check(t, "layout.h")
	if launchSize%(Threads*Each) != 0 {
		t.Error("a launch is not a multiple of the addresses per block and step")
	}
}
