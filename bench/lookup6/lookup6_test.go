package lookup6

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

// check compares every design with what is right, in batches with odd remainders.
func check(t *testing.T, routes Routes, addrs []netip.Addr, want []lookup.NextHop) {
	t.Helper()
	src := make([][16]byte, len(addrs))
	for i, a := range addrs {
		src[i] = a.As16()
	}
	dst := make([]lookup.NextHop, len(src))
	for _, d := range Designs {
		table := d.Build(routes)
		clear(dst)
		for from, n := 0, 1; from < len(src); n = n%200 + 1 {
			to := min(from+n, len(src))
			table.LookupBatch(dst[from:to], src[from:to])
			from = to
		}
		for i, right := range want {
			if dst[i] != right {
				t.Fatalf("%s: %v leads to %d, want %d", d.Name, addrs[i], dst[i], right)
			}
		}
	}
}

// edges are where answers change: a prefix's first and last address and their neighbours.
func edges(p netip.Prefix) (all []netip.Addr) {
	first, last := p.Addr().As16(), p.Addr().As16()
	for bit := p.Bits(); bit < 128; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	for _, a := range []netip.Addr{netip.AddrFrom16(first), netip.AddrFrom16(last)} {
		all = append(all, a)
		if prev := a.Prev(); prev.IsValid() {
			all = append(all, prev)
		}
		if next := a.Next(); next.IsValid() {
			all = append(all, next)
		}
	}
	return all
}

func TestDesignsAgreeWithLinearSearch(t *testing.T) {
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, s := range texts {
			all = append(all, netip.MustParsePrefix(s))
		}
		return all
	}
	var everyLength, deepest []netip.Prefix
	for bits := range 129 {
		everyLength = append(everyLength, netip.PrefixFrom(netip.MustParseAddr("2001:db8:5555:aaaa:1234:8765:ffff:0"), bits).Masked())
		deepest = append(deepest, netip.PrefixFrom(netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), bits).Masked())
	}
	tests := []struct {
		name   string
		routes []netip.Prefix
	}{
		{"no route", nil},
		{"default alone", prefixes("::/0")},
		{"one route", prefixes("2001:db8::/32")},
		{"first and last address", prefixes("::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")},
		{"last /64", prefixes("ffff:ffff:ffff:ffff::/64")},
		{"halves", prefixes("::/1", "8000::/1")},
		{"a /64 with longer routes and without one of its own", prefixes("2001:db8::/48", "2001:db8:0:1::5/128", "2001:db8:0:1:8000::/65")},
		{"a /64 with longer routes and one of its own", prefixes("2001:db8:0:1::/64", "2001:db8:0:1::/128", "2001:db8:0:1:ffff:ffff:ffff:ffff/128")},
		{"neighbouring /64 with longer routes", prefixes("2001:db8::/63", "2001:db8::1/128", "2001:db8:0:1::1/128")},
		{"every length at the ends of its parents", deepest},
		{"every length in the midst of its parents", everyLength},
		{"random", random(1, 300, func(r *rand.Rand) int { return r.IntN(129) })},
		{"random, much nested", random(2, 300, func(r *rand.Rand) int { return min(r.IntN(12)*6, 128) })},
		{"random, around /64", random(3, 300, func(r *rand.Rand) int { return 60 + r.IntN(9) })},
		{"random, long", random(4, 300, func(r *rand.Rand) int { return 100 + r.IntN(29) })},
		{"random, as on the internet", random(5, 300, func(r *rand.Rand) int { return []int{29, 32, 36, 40, 44, 48, 48, 48, 48, 64}[r.IntN(10)] })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			routes := oracle.Routes[lookup.NextHop]{}
			for i, p := range tt.routes {
				routes[p] = lookup.MaxNextHop - lookup.NextHop(i%251) // some neighbours share one
			}
			rnd := rand.New(rand.NewPCG(6, 0))
			addrs := []netip.Addr{netip.IPv6Unspecified(), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}
			for range 200 {
				addrs = append(addrs, scattered(rnd))
			}
			for p := range routes {
				addrs = append(addrs, edges(p)...)
			}
			want := make([]lookup.NextHop, len(addrs))
			for i, a := range addrs {
				_, want[i], _ = routes.Lookup(a)
			}
			check(t, maps.All(routes), addrs, want)
		})
	}
}

// The real table, and larger synthetic ones than a linear search is for, beside
// a trie that shares no code.
func TestDesignsAgreeWithBart(t *testing.T) {
	for _, name := range []string{"real", "nested", "adversarial", "dense"} {
		t.Run(name, func(t *testing.T) {
			size, drawn := 5_000, 5_000 // drawn: of each of four kinds of destinations
			if name == "real" {
				size, drawn = 0, 25_000
			}
			set, err := routes.New(name, routes.IPv6, size, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d routes: %s", set.Len(), set.Source)
			var trie bart.Fast[lookup.NextHop]
			for p, nh := range set.All() {
				trie.Insert(p, nh)
			}
			var addrs []netip.Addr
			for _, kind := range routes.Destinations {
				addrs = append(addrs, draw(t, set, kind, drawn)...)
			}
			every := 4*set.Len()/drawn + 1
			n := 0
			for a := range set.Edges() {
				if n++; n%every == 0 {
					addrs = append(addrs, a)
				}
			}
			want := make([]lookup.NextHop, len(addrs))
			for i, a := range addrs {
				want[i], _ = trie.Lookup(a)
			}
			check(t, set.All(), addrs, want)
		})
	}
}

// draw returns n destinations of a kind.
func draw(t testing.TB, set *routes.Set, kind string, n int) []netip.Addr {
	t.Helper()
	seq, err := set.Destinations(kind, 1)
	if err != nil {
		t.Fatal(err)
	}
	addrs := make([]netip.Addr, 0, n)
	for a := range seq {
		if addrs = append(addrs, a); len(addrs) == n {
			break
		}
	}
	return addrs
}

// scattered returns an address of which most bits are all the same, so that
// prefixes made of such nest, and often meet in the first and last of a range.
func scattered(rnd *rand.Rand) netip.Addr {
	a := [16]byte{0: 0x20}
	for range rnd.IntN(12) {
		a[rnd.IntN(16)] = []byte{0, 0xff, 0x80, 0x01, byte(rnd.Uint32())}[rnd.IntN(5)]
	}
	return netip.AddrFrom16(a)
}

// random returns n different prefixes; length draws the length of each.
func random(seed uint64, n int, length func(*rand.Rand) int) (all []netip.Prefix) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	seen := map[netip.Prefix]bool{}
	for len(all) < n {
		bits := length(rnd)
		if p := netip.PrefixFrom(scattered(rnd), bits).Masked(); !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}

func TestLookupAllocatesNothing(t *testing.T) {
	routes := oracle.Routes[lookup.NextHop]{}
	for i, p := range random(7, 1000, func(r *rand.Rand) int { return 20 + r.IntN(60) }) {
		routes[p] = lookup.NextHop(i + 1)
	}
	var src [][16]byte
	for p := range routes {
		src = append(src, p.Addr().As16())
	}
	dst := make([]lookup.NextHop, len(src))
	for _, d := range Designs {
		table := d.Build(maps.All(routes))
		if n := testing.AllocsPerRun(10, func() { table.LookupBatch(dst, src) }); n != 0 {
			t.Errorf("%s: %v allocations a batch, want none", d.Name, n)
		}
	}
}

func TestNamesAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Designs {
		if seen[d.Name] || d.Paper == "" {
			t.Errorf("%+v: a second one of this name, or without its paper", d)
		}
		seen[d.Name] = true
	}
}

func ExampleDesign() {
	routes := map[netip.Prefix]lookup.NextHop{
		netip.MustParsePrefix("2001:db8::/32"):   1,
		netip.MustParsePrefix("2001:db8:7::/48"): 2,
	}
	src := [][16]byte{
		netip.MustParseAddr("2001:db8:7::1").As16(),
		netip.MustParseAddr("2001:db8:8::1").As16(),
		netip.MustParseAddr("2001:db9::1").As16(),
	}
	dst := make([]lookup.NextHop, len(src))
	for _, d := range Designs[:2] {
		d.Build(maps.All(routes)).LookupBatch(dst, src)
		fmt.Println(d.Name, dst)
	}
	// Output:
	// poptrie [2 1 0]
	// lengths [2 1 0]
}
