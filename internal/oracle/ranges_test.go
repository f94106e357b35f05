package oracle

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestRangesAgreeWithLinearSearch(t *testing.T) {
	for _, size := range []int{4, 16} {
		for _, n := range []int{0, 1, 2, 50, 500} {
			rnd := rand.New(rand.NewPCG(uint64(size), uint64(n)))
			routes := Routes[int]{}
			random := func() netip.Addr {
				b := make([]byte, size)
				for i := range b {
					b[i] = byte(rnd.IntN(3)) * 0x7f // 00, 7f, fe: often equal
				}
				a, _ := netip.AddrFromSlice(b)
				return a
			}
			for i := range n {
				p := netip.PrefixFrom(random(), rnd.IntN(8*size+1)).Masked()
				routes[p] = i
			}
			ranges := NewRanges(maps.All(routes))
			addrs := []netip.Addr{random(), random(), random()}
			for p := range routes {
				addrs = append(addrs, p.Addr(), p.Addr().Prev(), lastAddr(p), lastAddr(p).Next())
			}
			for _, a := range addrs {
				if !a.IsValid() {
					continue
				}
				_, want, wantOK := routes.Lookup(a)
				if got, ok := ranges.Lookup(a); got != want || ok != wantOK {
					t.Fatalf("%d routes, %v: %d %v, want %d %v", n, a, got, ok, want, wantOK)
				}
			}
		}
	}
}

func TestRangesIncludeTheLastAddress(t *testing.T) {
	ranges := NewRanges(maps.All(map[netip.Prefix]int{
		netip.MustParsePrefix("255.0.0.0/8"): 1, netip.MustParsePrefix("255.255.255.255/32"): 2,
	}))
	for addr, want := range map[string]int{"254.255.255.255": 0, "255.0.0.0": 1, "255.255.255.254": 1, "255.255.255.255": 2} {
		if got, ok := ranges.Lookup(netip.MustParseAddr(addr)); got != want || ok != (want > 0) {
			t.Errorf("%s: %d %v, want %d", addr, got, ok, want)
		}
	}
}
