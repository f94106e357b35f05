package ipv4

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/lookup"
)

func TestBatchAgreesWithTheOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	table, want := New(), oracle.Routes[lookup.NextHop]{}
	src, dst := make([]uint32, 1000), make([]lookup.NextHop, 1100)
	for i := range src {
		src[i] = rnd.Uint32()
		a := toAddr(src[i])
		p := netip.PrefixFrom(a, rnd.IntN(33)).Masked()
		want[p] = lookup.NextHop(i + 1)
		if err := table.Insert(p, want[p]); err != nil {
			t.Fatal(err)
		}
		src[i] ^= 1 << rnd.IntN(32)
	}
	table.LookupBatch(dst, src)
	for i, addr := range src {
		_, nh, _ := want.Lookup(toAddr(addr))
		if dst[i] != nh || table.Lookup(addr) != nh {
			t.Fatalf("%v: batch %d, single %d, want %d", toAddr(addr), dst[i], table.Lookup(addr), nh)
		}
	}
	if n := testing.AllocsPerRun(10, func() { table.LookupBatch(dst, src) }); n != 0 {
		t.Errorf("LookupBatch allocates %v times", n)
	}
}
