package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

// tunnels are rules of as many sites, each with its own two prefixes.
func (w *world) tunnels(n int, ipv6 bool) *world {
	for i := range n {
		src := []byte{10, byte(i >> 8), byte(i), 0}
		dst := []byte{172, 16 + byte(i>>14), byte(i >> 6), byte(i << 2)}
		bits := [2]int{24, 30}
		if ipv6 {
			src = append([]byte{0x20, 1, 0xd, 0xb8, byte(i >> 8), byte(i)}, make([]byte, 10)...)
			dst = append([]byte{0x2a, byte(w.Uint32()), byte(w.Uint32()), byte(w.Uint32()), byte(w.Uint32()), byte(w.Uint32()), byte(i >> 8), byte(i)}, make([]byte, 8)...)
			bits = [2]int{48, 64}
		}
		s, _ := netip.AddrFromSlice(src)
		d, _ := netip.AddrFromSlice(dst)
		w.rules = append(w.rules, rule{netip.PrefixFrom(s, bits[0]), netip.PrefixFrom(d, bits[1]), 0, anyPort, anyPort, Protect, uint32(i)})
	}
	return w
}

// scattered is tunnels between networks without any order.
func (w *world) scattered(n int, ipv6 bool) *world {
	for range n {
		var b [32]byte
		for i := range b {
			b[i] = byte(w.Uint32())
		}
		x, y := netip.AddrFrom4([4]byte(b[:])), netip.AddrFrom4([4]byte(b[16:]))
		if ipv6 {
			x, y = netip.AddrFrom16([16]byte(b[:])), netip.AddrFrom16([16]byte(b[16:]))
		}
		bits := func() int { return x.BitLen() * (8 + w.IntN(9)) / 16 }
		w.rules = append(w.rules, rule{netip.PrefixFrom(x, bits()).Masked(), netip.PrefixFrom(y, bits()).Masked(), 0, anyPort, anyPort, Protect, 1})
	}
	return w
}

// overlapping is rules between few networks of all sizes, for some protocols and ports.
func (w *world) overlapping(n int, ipv6 bool) *world {
	side := func() netip.Prefix {
		b := []byte{10, byte(w.IntN(4)), byte(w.IntN(16)), byte(w.Uint32())}
		bits := []int{0, 8, 12, 16, 16, 20, 24, 24, 24, 28, 32}[w.IntN(11)]
		if ipv6 {
			b = append([]byte{0x20, 1, 0xd, 0xb8}, append(b, make([]byte, 8)...)...)
			bits *= 2
		}
		a, _ := netip.AddrFromSlice(b)
		return netip.PrefixFrom(a, bits).Masked()
	}
	for range n {
		r := rule{side(), side(), 0, anyPort, anyPort, Bypass, 0}
		if !w.one(3) {
			r.protocol = []uint8{6, 17}[w.IntN(2)]
			first := w.IntN(60000)
			r.dport = [2]int{first, first + w.IntN(2)*w.IntN(4000)}
		}
		w.rules = append(w.rules, r)
	}
	return w
}

// hub is rules of which half are for any source, and half for any destination.
func (w *world) hub(n int, ipv6 bool) *world {
	w.tunnels(n, ipv6)
	any := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if ipv6 {
		any = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	for i := range w.rules {
		if i%2 == 0 {
			w.rules[i].src = any
		} else {
			w.rules[i].dst = any
		}
	}
	return w
}

var kinds = map[string]func(*world, int, bool) *world{
	"tunnels": (*world).tunnels, "scattered": (*world).scattered, "overlapping": (*world).overlapping, "hub": (*world).hub,
}

// run has f called for every kind and size of tables, with flows that have policies.
func run(b *testing.B, sizes []int, f func(b *testing.B, table *Table, flows []Flow)) {
	for _, kind := range []string{"tunnels", "scattered", "overlapping", "hub"} {
		for _, ipv6 := range []bool{false, true} {
			for _, n := range sizes {
				b.Run(fmt.Sprintf("%s/ipv6=%v/%d", kind, ipv6, n), func(b *testing.B) {
					w := kinds[kind](newWorld(1), n, ipv6)
					table, err := Build(policies(w.rules))
					require.NoError(b, err)
					flows := make([]Flow, 1<<16)
					for i := range flows {
						r := w.rules[w.IntN(n)]
						flows[i] = flowOf(packet{w.inside(r.src), w.inside(r.dst), 6, w.IntN(65536), w.IntN(65536)})
					}
					f(b, table, flows)
					b.ReportMetric(float64(len(table.words)*4)/float64(n), "B/policy")
				})
			}
		}
	}
}

// Alternating lookups of 64k flows, with warm caches.
func BenchmarkLookup(b *testing.B) {
	run(b, []int{1, 100, 1000, 10_000}, func(b *testing.B, table *Table, flows []Flow) {
		for i := 0; b.Loop(); i++ {
			table.Lookup(&flows[i%len(flows)])
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	run(b, []int{1, 100, 1000, 10_000}, func(b *testing.B, table *Table, flows []Flow) {
		numbers, verdicts := make([]int32, atOnce), make([]Verdict, atOnce)
		for i := 0; b.Loop(); i += atOnce {
			table.LookupBatch(numbers, verdicts, flows[i%len(flows):][:atOnce])
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N*atOnce), "ns/lookup")
	})
}

// Batches of 64, with 4 MiB of other accesses between them, so that the table leaves the core's own
// caches. The figure is the median batch's.
func BenchmarkCold(b *testing.B) {
	other := make([]uint64, 1<<19)
	run(b, []int{1000, 10_000}, func(b *testing.B, table *Table, flows []Flow) {
		numbers, verdicts := make([]int32, atOnce), make([]Verdict, atOnce)
		var single, batch []time.Duration
		for i := 0; b.Loop(); i += atOnce {
			i %= len(flows)
			some := flows[i:][:atOnce]
			for j := 0; j < len(other); j += 8 {
				other[j]++
			}
			begin := time.Now()
			for j := range some {
				table.Lookup(&some[j])
			}
			single = append(single, time.Since(begin))
			for j := 0; j < len(other); j += 8 {
				other[j]++
			}
			others := flows[(i+len(flows)/2)%len(flows):][:atOnce]
			begin = time.Now()
			table.LookupBatch(numbers, verdicts, others)
			batch = append(batch, time.Since(begin))
		}
		slices.Sort(single)
		slices.Sort(batch)
		b.ReportMetric(float64(single[len(single)/2])/atOnce, "ns/single")
		b.ReportMetric(float64(batch[len(batch)/2])/atOnce, "ns/batched")
	})
}

func BenchmarkBuild(b *testing.B) {
	for _, kind := range []string{"tunnels", "scattered", "overlapping", "hub"} {
		for _, ipv6 := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/ipv6=%v", kind, ipv6), func(b *testing.B) {
				ps := policies(kinds[kind](newWorld(1), 10_000, ipv6).rules)
				for b.Loop() {
					if _, err := Build(ps); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
