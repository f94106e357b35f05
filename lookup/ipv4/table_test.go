package ipv4

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

func addrOf(addr uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, addr)))
}

// randomTable returns a table with n routes of every length, many longer than /24, the
// same routes in an oracle, and addresses inside and next to them.
func randomTable(t testing.TB, rnd *rand.Rand, n int) (*Table, oracle.Routes[lookup.NextHopID], []uint32) {
	t.Helper()
	table, want, addrs := New(), oracle.Routes[lookup.NextHopID]{}, make([]uint32, n)
	for i := range n {
		addrs[i] = rnd.Uint32()
		if i > 0 && rnd.IntN(2) == 0 { // nest
			addrs[i] = addrs[rnd.IntN(i)] ^ rnd.Uint32()>>16
		}
		p := netip.PrefixFrom(addrOf(addrs[i]), min(32, 8+rnd.IntN(30))).Masked()
		want[p] = lookup.NextHopID(1 + rnd.IntN(int(lookup.MaxNextHopID)))
		require.NoError(t, table.Insert(p, want[p]))
		addrs[i] ^= 1 << rnd.IntN(32)
	}
	return table, want, addrs
}

// Batches of 0 to 200 addresses at all alignments, with and without a default route.
func TestKernelsAgreeWithOracle(t *testing.T) {
	const unused = 12345
	rnd := rand.New(rand.NewPCG(1, 1))
	table, want, addrs := randomTable(t, rnd, 1000)
	all := netip.MustParsePrefix("0.0.0.0/0")
	for _, fallback := range []lookup.NextHopID{lookup.Miss, lookup.MaxNextHopID} {
		if fallback != lookup.Miss {
			want[all] = fallback
			require.NoError(t, table.Insert(all, fallback))
		}
		hops := make([]lookup.NextHopID, len(addrs))
		for i, a := range addrs {
			_, hops[i], _ = want.Lookup(addrOf(a))
			if nh := table.Lookup(a); nh != hops[i] {
				t.Fatalf("Lookup(%v): %d, want %d", addrOf(a), nh, hops[i])
			}
		}
		for _, kernel := range Kernels() {
			require.NoError(t, table.Use(kernel))
			for n := range 201 {
				for align := range 16 { // of source and destination, in addresses
					at := rnd.IntN(len(addrs)-n-16) &^ 15
					src, hops := addrs[at+align:at+align+n], hops[at+align:at+align+n]
					dst := slices.Repeat([]lookup.NextHopID{unused}, n+64)
					table.LookupBatch(dst[align:], src)
					if got := dst[align : align+n]; !slices.Equal(got, hops) {
						t.Fatalf("%s: %d addresses: %v, want %v", kernel, n, got, hops)
					}
					if slices.ContainsFunc(append(dst[:align:align], dst[align+n:]...), func(nh lookup.NextHopID) bool { return nh != unused }) {
						t.Fatalf("%s: %d addresses: wrote outside the batch", kernel, n)
					}
				}
			}
		}
	}
}

// Batches longer than the kernels look up at once.
func TestLongBatches(t *testing.T) {
	table, want, addrs := randomTable(t, rand.New(rand.NewPCG(3, 1)), 1000)
	addrs = slices.Repeat(addrs, 5)
	hops := make([]lookup.NextHopID, len(addrs))
	for i, a := range addrs {
		_, hops[i], _ = want.Lookup(addrOf(a))
	}
	for _, kernel := range Kernels() {
		require.NoError(t, table.Use(kernel))
		for _, n := range []int{trie.MaxBatch - 1, trie.MaxBatch, trie.MaxBatch + 1, 2 * trie.MaxBatch, len(addrs)} {
			var dst [5000]lookup.NextHopID
			if table.LookupBatch(dst[:], addrs[:n]); !slices.Equal(dst[:n], hops[:n]) {
				t.Errorf("%s: wrong next hops in a batch of %d", kernel, n)
			}
			if slices.ContainsFunc(dst[n:], func(nh lookup.NextHopID) bool { return nh != 0 }) {
				t.Errorf("%s: wrote outside a batch of %d", kernel, n)
			}
		}
	}
}

func TestLookupBatchPanicsWithShortDestination(t *testing.T) {
	table, _, addrs := randomTable(t, rand.New(rand.NewPCG(4, 1)), 100)
	for _, kernel := range Kernels() {
		require.NoError(t, table.Use(kernel))
		for _, n := range []int{1, 16, 17, 64} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %d addresses into %d next hops: no panic", kernel, n, n-1)
					}
				}()
				table.LookupBatch(make([]lookup.NextHopID, n-1), addrs[:n])
			}()
		}
	}
}

// A batch in assembly keeps its image mapped while others are loaded and collected.
func TestImagesStayMappedDuringBatches(t *testing.T) {
	table, p := New(), netip.MustParsePrefix("10.0.0.0/8")
	load := func(nh lookup.NextHopID) {
		if err := table.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) { yield(p, nh) }); err != nil {
			t.Error(err)
		}
	}
	load(1)
	stop, done := make(chan struct{}), make(chan lookup.NextHopID)
	go func() {
		src, last := slices.Repeat([]uint32{0x0a010203}, 64), lookup.NextHopID(1)
		for {
			select {
			case <-stop:
				done <- last
				return
			default:
			}
			for _, n := range []int{16, 64} {
				var dst [64]lookup.NextHopID
				table.LookupBatch(dst[:], src[:n])
				for _, nh := range dst[:n] {
					if nh != dst[0] || nh < last {
						t.Errorf("next hop %d after %d", nh, last)
					}
				}
				last = dst[0]
			}
		}
	}()
	const loads = 50
	for nh := range lookup.NextHopID(loads) {
		load(nh + 2)
		runtime.GC()
	}
	close(stop)
	if last := <-done; last > loads+1 {
		t.Errorf("next hop %d was never loaded", last)
	}
}

func TestEmptyTableReturnsMiss(t *testing.T) {
	table, dst := New(), []lookup.NextHopID{1, 2, 3}
	if table.LookupBatch(dst, []uint32{1, 2, 3}); !slices.Equal(dst, make([]lookup.NextHopID, 3)) || table.Lookup(1) != lookup.Miss {
		t.Errorf("empty table: next hops %v, want none", dst)
	}
	if table.Bytes() != 0 {
		t.Errorf("empty table: %d bytes, want 0", table.Bytes())
	}
	if err := table.Use("abacus"); err == nil {
		t.Error("unknown kernel accepted")
	}
}

func TestLookupBatchDoesNotAllocate(t *testing.T) {
	table, _, addrs := randomTable(t, rand.New(rand.NewPCG(2, 1)), 1000)
	dst := make([]lookup.NextHopID, len(addrs))
	for _, kernel := range Kernels() {
		require.NoError(t, table.Use(kernel))
		if n := testing.AllocsPerRun(10, func() { table.LookupBatch(dst, addrs) }); n != 0 {
			t.Errorf("%s: a batch allocates %v times", kernel, n)
		}
	}
}

// Next to a writer at its maximum rate, whose changes reuse trie nodes, a lookup returns the
// old or the new route of its address and never a route of another address.
func TestReadersNeverSeeReusedNodes(t *testing.T) {
	const flapping, rounds = 700, 60
	table := New()
	require.NoError(t, table.Insert(netip.MustParsePrefix("0.0.0.0/0"), lookup.MaxNextHopID))
	narrow, addrs := make([]netip.Prefix, flapping), make([]uint32, flapping)
	for i := range narrow {
		addrs[i] = uint32(i)*0x10100 + 0x0a000080
		narrow[i] = netip.PrefixFrom(addrOf(addrs[i]), 26)
	}
	// The next hop of a route encodes its index and the round of its insertion.
	hop := func(i, round int) lookup.NextHopID { return lookup.NextHopID(1 + i + 1024*round) }
	for _, kernel := range Kernels() {
		require.NoError(t, table.Use(kernel))
		stop, done := make(chan struct{}), make(chan int)
		go func() {
			dst, wrong := make([]lookup.NextHopID, flapping), 0
			for batch := flapping; ; batch = flapping + 16 - batch { // one batch, or batches of 16
				select {
				case <-stop:
					done <- wrong
					return
				default:
				}
				for at := 0; at < flapping; at += batch {
					end := min(at+batch, flapping)
					table.LookupBatch(dst[at:end], addrs[at:end])
				}
				for i, nh := range dst {
					if nh != lookup.MaxNextHopID && (nh-1)%1024 != lookup.NextHopID(i) {
						wrong++
					}
				}
			}
		}()
		rnd := rand.New(rand.NewPCG(6, 6))
		for round := range rounds {
			for _, i := range rnd.Perm(flapping) {
				require.NoError(t, table.Insert(narrow[i], hop(i, round)))
				table.Delete(narrow[rnd.IntN(flapping)])
			}
		}
		close(stop)
		if wrong := <-done; wrong > 0 {
			t.Errorf("%s: %d results with the route of another address", kernel, wrong)
		}
	}
	if n := table.Image().Generation(); n < 10 {
		t.Errorf("nodes were reused only %d times", n)
	}
}
