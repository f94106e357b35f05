package ipv4

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/lookup"
)

func addrOf(addr uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, addr)))
}

// randomTable has n routes of every length, many of them longer than /24, and
// addresses in and beside them.
func randomTable(t testing.TB, rnd *rand.Rand, n int) (*Table, oracle.Routes[lookup.NextHop], []uint32) {
	t.Helper()
	table, want, addrs := New(), oracle.Routes[lookup.NextHop]{}, make([]uint32, n)
	for i := range n {
		addrs[i] = rnd.Uint32()
		if i > 0 && rnd.IntN(2) == 0 { // nest
			addrs[i] = addrs[rnd.IntN(i)] ^ rnd.Uint32()>>16
		}
		p := netip.PrefixFrom(addrOf(addrs[i]), min(32, 8+rnd.IntN(30))).Masked()
		want[p] = lookup.NextHop(1 + rnd.IntN(int(lookup.MaxNextHop)))
		if err := table.Insert(p, want[p]); err != nil {
			t.Fatal(err)
		}
		addrs[i] ^= 1 << rnd.IntN(32)
	}
	return table, want, addrs
}

// Every kernel answers a batch of every size as the oracle does, with a default
// route and without, and writes nothing beyond it.
func TestKernelsAgreeWithTheOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	table, want, addrs := randomTable(t, rnd, 1000)
	all := netip.MustParsePrefix("0.0.0.0/0")
	for _, fallback := range []lookup.NextHop{lookup.Miss, lookup.MaxNextHop} {
		if fallback != lookup.Miss {
			want[all] = fallback
			if err := table.Insert(all, fallback); err != nil {
				t.Fatal(err)
			}
		}
		answers := make([]lookup.NextHop, len(addrs))
		for i, a := range addrs {
			_, answers[i], _ = want.Lookup(addrOf(a))
			if nh := table.Lookup(a); nh != answers[i] {
				t.Fatalf("Lookup(%v): %d, want %d", addrOf(a), nh, answers[i])
			}
		}
		for _, kernel := range Kernels() {
			if err := table.Use(kernel); err != nil {
				t.Fatal(err)
			}
			for n := range 200 {
				at := rnd.IntN(len(addrs) - n)
				dst := slices.Repeat([]lookup.NextHop{12345}, n+20)
				table.LookupBatch(dst, addrs[at:at+n])
				if !slices.Equal(dst[:n], answers[at:at+n]) {
					t.Fatalf("%s: %d addresses: %v, want %v", kernel, n, dst[:n], answers[at:at+n])
				}
				if slices.ContainsFunc(dst[n:], func(nh lookup.NextHop) bool { return nh != 12345 }) {
					t.Fatalf("%s: %d addresses: wrote beyond the batch", kernel, n)
				}
			}
		}
	}
}

func TestAnEmptyTableHasNoRoutes(t *testing.T) {
	table, dst := New(), []lookup.NextHop{1, 2, 3}
	if table.LookupBatch(dst, []uint32{1, 2, 3}); !slices.Equal(dst, make([]lookup.NextHop, 3)) || table.Lookup(1) != lookup.Miss {
		t.Errorf("an empty table answers %v", dst)
	}
	if table.Bytes() != 0 {
		t.Errorf("a table that never had a route takes %d bytes", table.Bytes())
	}
	if err := table.Use("abacus"); err == nil {
		t.Error("there is a kernel named abacus")
	}
}

func TestBatchesAllocateNothing(t *testing.T) {
	table, _, addrs := randomTable(t, rand.New(rand.NewPCG(2, 1)), 1000)
	dst := make([]lookup.NextHop, len(addrs))
	for _, kernel := range Kernels() {
		if err := table.Use(kernel); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(10, func() { table.LookupBatch(dst, addrs) }); n != 0 {
			t.Errorf("%s: a batch allocates %v times", kernel, n)
		}
	}
}

// Beside a writer at full speed, that has groups begin one life after another,
// every address has its own old or new route and never that of another.
func TestReadersBesideAWriter(t *testing.T) {
	const flapping, rounds = 700, 60
	table := New()
	if err := table.Insert(netip.MustParsePrefix("0.0.0.0/0"), lookup.MaxNextHop); err != nil {
		t.Fatal(err)
	}
	narrow, addrs := make([]netip.Prefix, flapping), make([]uint32, flapping)
	for i := range narrow {
		addrs[i] = uint32(i)*0x10100 + 0x0a000080
		narrow[i] = netip.PrefixFrom(addrOf(addrs[i]), 26)
	}
	// A route's next hop says which it is, and in which round it was inserted.
	hop := func(i, round int) lookup.NextHop { return lookup.NextHop(1 + i + 1024*round) }
	for _, kernel := range Kernels() {
		if err := table.Use(kernel); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan int)
		go func() {
			dst, wrong := make([]lookup.NextHop, flapping), 0
			for {
				select {
				case <-stop:
					done <- wrong
					return
				default:
				}
				table.LookupBatch(dst, addrs)
				for i, nh := range dst {
					if nh != lookup.MaxNextHop && (nh-1)%1024 != lookup.NextHop(i) {
						wrong++
					}
				}
			}
		}()
		rnd := rand.New(rand.NewPCG(6, 6))
		for round := range rounds {
			for _, i := range rnd.Perm(flapping) {
				if err := table.Insert(narrow[i], hop(i, round)); err != nil {
					t.Fatal(err)
				}
				table.Delete(narrow[rnd.IntN(flapping)])
			}
		}
		close(stop)
		if wrong := <-done; wrong > 0 {
			t.Errorf("%s: %d answers were of another route", kernel, wrong)
		}
	}
	if n := table.Image().Reuses(); n < 10 {
		t.Errorf("groups were taken back only %d times", n)
	}
}
