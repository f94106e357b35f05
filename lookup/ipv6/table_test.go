package ipv6

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

// randomTable returns a table with n routes of every length, nested to every depth, the
// same routes in an oracle, and addresses inside and next to them.
func randomTable(t testing.TB, rnd *rand.Rand, n int) (*Table, oracle.Routes[lookup.NextHopID], [][16]byte) {
	t.Helper()
	table, want, addrs := New(), oracle.Routes[lookup.NextHopID]{}, make([][16]byte, n)
	for i := range n {
		from := 0
		if i > 0 && rnd.IntN(2) == 0 { // nest
			addrs[i], from = addrs[rnd.IntN(i)], 2+rnd.IntN(14)
		}
		for k := from; k < 16; k++ {
			addrs[i][k] = byte(rnd.Uint32())
		}
		p := netip.PrefixFrom(netip.AddrFrom16(addrs[i]), min(128, 8+rnd.IntN(124))).Masked()
		want[p] = lookup.NextHopID(1 + rnd.IntN(int(lookup.MaxNextHopID)))
		require.NoError(t, table.Insert(p, want[p]))
		addrs[i][rnd.IntN(16)] ^= 1 << rnd.IntN(8)
	}
	return table, want, addrs
}

// Batches of 0 to 200 addresses at all alignments, with and without a default route.
func TestKernelsAgreeWithOracle(t *testing.T) {
	const unused = 12345
	rnd := rand.New(rand.NewPCG(1, 1))
	table, want, addrs := randomTable(t, rnd, 1000)
	all := netip.MustParsePrefix("::/0")
	for _, fallback := range []lookup.NextHopID{lookup.Miss, lookup.MaxNextHopID} {
		if fallback != lookup.Miss {
			want[all] = fallback
			require.NoError(t, table.Insert(all, fallback))
		}
		hops := make([]lookup.NextHopID, len(addrs))
		for i, a := range addrs {
			_, hops[i], _ = want.Lookup(netip.AddrFrom16(a))
			if nh := table.Lookup(a); nh != hops[i] {
				t.Fatalf("Lookup(%v): %d, want %d", netip.AddrFrom16(a), nh, hops[i])
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

func TestEmptyTableReturnsMiss(t *testing.T) {
	table, dst := New(), []lookup.NextHopID{1, 2, 3}
	if table.LookupBatch(dst, make([][16]byte, 3)); !slices.Equal(dst, make([]lookup.NextHopID, 3)) || table.Lookup([16]byte{}) != lookup.Miss {
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
	require.NoError(t, table.Insert(netip.MustParsePrefix("::/0"), lookup.MaxNextHopID))
	narrow, addrs := make([]netip.Prefix, flapping), make([][16]byte, flapping)
	for i := range narrow {
		addrs[i] = [16]byte{0x20, 1, 0xd, 0xb8, byte(i), 0, byte(i >> 8)}
		narrow[i] = netip.PrefixFrom(netip.AddrFrom16(addrs[i]), 57)
	}
	// The next hop of a route encodes its index and the round of its insertion.
	hop := func(i, round int) lookup.NextHopID { return lookup.NextHopID(1 + i + 1024*round) }
	for _, kernel := range Kernels() {
		require.NoError(t, table.Use(kernel))
		stop, done := make(chan struct{}), make(chan int)
		go func() {
			dst, wrong := make([]lookup.NextHopID, flapping), 0
			for {
				select {
				case <-stop:
					done <- wrong
					return
				default:
				}
				table.LookupBatch(dst, addrs)
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
