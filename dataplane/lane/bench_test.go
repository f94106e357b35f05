package lane

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/umem"
)

// tunnels returns a gateway that protects the packets between n pairs of networks.
func tunnels(tb testing.TB, n int) *gateway.Gateway {
	g := &gateway.Gateway{}
	var rules []gateway.Rule
	for i := range n {
		t := g.Tunnel(fmt.Sprint(i))
		src, dst := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i)})
		rules = append(rules, gateway.Rule{Direction: ipsec.Out, Policy: policy.Policy{
			Src: netip.PrefixFrom(src, 24), Dst: netip.PrefixFrom(dst, 24), Action: policy.Protect, Target: t,
		}})
	}
	require.NoError(tb, g.SetRules(rules))
	return g
}

// BenchmarkClassify measures the default lanes per packet, with warm caches.
func BenchmarkClassify(b *testing.B) {
	const n = 64
	mem := make([]byte, n*umem.FrameSize)
	for _, v := range []struct {
		name    string
		tunnels int
		packet  func(i int) []byte
	}{
		{"ESP", 1, func(int) []byte {
			return testutil.Edit(testutil.UDP4("192.0.2.1", "192.0.2.2", 1, 2, 0, 0, 0, 0), 9, 50)
		}},
		{"1 tunnel", 1, func(int) []byte { return testutil.UDP4("10.0.0.1", "20.0.0.1", 1, 2, 0, 0, 0, 0) }},
		{"1000 tunnels", 1000, func(i int) []byte {
			return testutil.UDP4(fmt.Sprintf("10.%d.%d.1", i%4, i), fmt.Sprintf("20.%d.%d.1", i%4, i), 1, 2, 0, 0, 0, 0)
		}},
		{"plain", 1000, func(i int) []byte { return testutil.UDP4("10.0.0.1", fmt.Sprintf("20.0.%d.1", i), 1, 2, 0, 0, 0, 0) }},
	} {
		b.Run(v.name, func(b *testing.B) {
			var frames [n]batch.Frame
			var lanes [n]uint8
			for i := range frames {
				addr := uint32(i*umem.FrameSize + umem.DataOffset + i%16*64)
				frames[i] = batch.Frame{Addr: addr, Len: uint16(copy(mem[addr:], v.packet(i)))}
			}
			compiled, err := Compile(Default(), tunnels(b, v.tunnels))
			require.NoError(b, err)
			k := compiled.NewClassifier()
			for b.Loop() {
				k.Classify(mem, frames[:], lanes[:])
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/packet")
		})
	}
}
