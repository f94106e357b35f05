package lookup_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
	"github.com/warproute/warproute/lookup/trie"
)

// vrfPrefix is the i-th route of a VRF in tests: a /24 or /48 of consecutive networks.
func vrfPrefix(f routes.Family, i int) netip.Prefix {
	if f == routes.IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x10, 0, 0, byte(i >> 8), byte(i)}), 48)
}

// Batch lookups in VRFs return the results of single lookups, whatever the sizes of batches and the VRFs in them.
func TestBatchesOfVRFsAgree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	v4, v6 := ipv4.New(), ipv6.New()
	const vrfs = 40
	for vrf := 1; vrf < vrfs; vrf += 2 { // the others have no routes
		for i := range 50 {
			nh := lookup.NextHopID(1 + rnd.IntN(1000))
			require.NoError(t, v4.VRF(vrf).Insert(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(rnd.IntN(3)), byte(i), 128}), 8+rnd.IntN(25)).Masked(), nh))
			require.NoError(t, v6.VRF(vrf).Insert(netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, byte(rnd.IntN(3)), byte(i), 15: 1}), 8+rnd.IntN(121)).Masked(), nh))
		}
	}
	require.NoError(t, v4.Insert(netip.MustParsePrefix("0.0.0.0/0"), 5000))
	require.NoError(t, v6.Insert(netip.MustParsePrefix("::/0"), 5000))
	for size := range 200 {
		in, src4, src6, dst := make([]uint16, size), make([]uint32, size), make([][16]byte, size), make([]lookup.NextHopID, size)
		for i := range in {
			in[i] = uint16(1 + rnd.IntN(vrfs))
			src4[i] = 10<<24 | rnd.Uint32N(3)<<16 | rnd.Uint32N(50)<<8 | rnd.Uint32N(256)
			src6[i] = [16]byte{0xfd, byte(rnd.IntN(3)), byte(rnd.IntN(50)), 15: byte(rnd.IntN(2))}
		}
		v4.LookupVRFs(dst, in, src4)
		for i, nh := range dst {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], src4[i])
			if _, want := v4.WalkIn(int(in[i]), trie.Key{b[0], b[1], b[2], b[3]}); nh != want {
				t.Fatalf("VRF %d: %v: next hop %d, want %d", in[i], b, nh, want)
			}
		}
		v6.LookupVRFs(dst, in, src6)
		for i, nh := range dst {
			if _, want := v6.WalkIn(int(in[i]), src6[i]); nh != want {
				t.Fatalf("VRF %d: %v: next hop %d, want %d", in[i], src6[i], nh, want)
			}
		}
	}
}

// BenchmarkVRFs compares lookups in 1 and 256 VRFs with those in a table of the same routes.
func BenchmarkVRFs(b *testing.B) {
	const perVRF, n = 1000, 256
	rnd := rand.New(rand.NewPCG(9, 9))
	for _, vrfs := range []int{1, 256} {
		v4, v6 := ipv4.New(), ipv6.New()
		in, src4, src6, dst := make([]uint16, 1<<14), make([]uint32, 1<<14), make([][16]byte, 1<<14), make([]lookup.NextHopID, n)
		for vrf := 1; vrf <= vrfs; vrf++ {
			for i := range perVRF {
				require.NoError(b, v4.VRF(vrf).Insert(vrfPrefix(routes.IPv4, i), 7))
				require.NoError(b, v6.VRF(vrf).Insert(vrfPrefix(routes.IPv6, i), 7))
			}
		}
		for i := range perVRF {
			require.NoError(b, v4.Insert(vrfPrefix(routes.IPv4, i), 7))
			require.NoError(b, v6.Insert(vrfPrefix(routes.IPv6, i), 7))
		}
		for i := range in {
			at := rnd.IntN(perVRF)
			in[i] = uint16(1 + rnd.IntN(vrfs))
			a := vrfPrefix(routes.IPv4, at).Addr().As4()
			src4[i], src6[i] = binary.BigEndian.Uint32(a[:]), vrfPrefix(routes.IPv6, at).Addr().As16()
		}
		for name, batch := range map[string]func(at int){
			"table/ipv4": func(at int) { v4.LookupBatch(dst, src4[at:at+n]) },
			"table/ipv6": func(at int) { v6.LookupBatch(dst, src6[at:at+n]) },
			"vrf/ipv4":   func(at int) { v4.LookupVRFs(dst, in[at:at+n], src4[at:at+n]) },
			"vrf/ipv6":   func(at int) { v6.LookupVRFs(dst, in[at:at+n], src6[at:at+n]) },
		} {
			b.Run(fmt.Sprintf("%s/vrfs=%d", name, vrfs), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					batch(i % (len(in) / n) * n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/lookup")
			})
		}
		b.Logf("%d VRFs: %d nodes IPv4, %d IPv6, %d KiB", vrfs, v4.Image().NodesInUse(), v6.Image().NodesInUse(), (v4.Image().NodesInUse()+v6.Image().NodesInUse())*trie.Pitch*4>>10)
	}
}
