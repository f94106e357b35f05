package ipv6

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/lookup"
)

func TestBatchAgreesWithTheOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	table, want := New(), oracle.Routes[lookup.NextHop]{}
	src, dst := make([][16]byte, 1000), make([]lookup.NextHop, 1100)
	for i := range src {
		binary.BigEndian.PutUint64(src[i][:8], rnd.Uint64())
		binary.BigEndian.PutUint64(src[i][8:], rnd.Uint64())
		p := netip.PrefixFrom(netip.AddrFrom16(src[i]), rnd.IntN(129)).Masked()
		want[p] = lookup.NextHop(i + 1)
		if err := table.Insert(p, want[p]); err != nil {
			t.Fatal(err)
		}
		src[i][rnd.IntN(16)] ^= 1 << rnd.IntN(8)
	}
	table.LookupBatch(dst, src)
	for i, addr := range src {
		_, nh, _ := want.Lookup(netip.AddrFrom16(addr))
		if dst[i] != nh || table.Lookup(addr) != nh {
			t.Fatalf("%x: batch %d, single %d, want %d", addr, dst[i], table.Lookup(addr), nh)
		}
	}
	if n := testing.AllocsPerRun(10, func() { table.LookupBatch(dst, src) }); n != 0 {
		t.Errorf("LookupBatch allocates %v times", n)
	}
}
