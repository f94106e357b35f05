package esp_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// tunnels returns a world with n tunnels, and packets for them round-robin.
func tunnels(b *testing.B, n, size int) (w *world, g *gateway.Gateway, frames [][]byte) {
	w, g = newWorld(b), &gateway.Gateway{}
	var rules []gateway.Rule
	for i := range n {
		c := config(ipsec.Out, false)
		c.Name, c.SPI = fmt.Sprint(i), uint32(0x1000+i)
		c.Tunnel = g.Tunnel(c.Name)
		s, err := ipsec.NewSA(c, 2)
		require.NoError(b, err)
		require.NoError(b, g.Add(s))
		src := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		rules = append(rules, gateway.Rule{Direction: ipsec.Out, Policy: policy.Policy{
			Src: netip.PrefixFrom(src, 32), Dst: prefix("10.1.0.0/16"), Action: policy.Protect, Target: c.Tunnel,
		}})
	}
	require.NoError(b, g.SetRules(rules))
	w.Engine.Secure(g, 0)
	for i := range 256 {
		src := netip.AddrFrom4([4]byte{192, 0, byte(i % n >> 8), byte(i % n)})
		frames = append(frames, testutil.UDP4(src.String(), "10.1.0.9", 1000, 53, make([]byte, size-28)...))
	}
	return w, g, frames
}

// BenchmarkGateway measures an outbound packet on the CPU: all of it, only Begin, and only the cipher.
func BenchmarkGateway(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, size := range []int{64, 1408} {
			w, g, frames := tunnels(b, n, size)
			for i, f := range frames {
				copy(w.Mem.Bytes()[i*umem.FrameSize+umem.DataOffset:], f)
			}
			w.Chunk.N = len(frames)
			jobs := make([]esp.Job, len(frames))
			run := func(b *testing.B, submit func()) {
				b.Helper()
				packets := 0
				for b.Loop() {
					for i, f := range frames { // as they were received
						addr := uint32(i)*umem.FrameSize + umem.DataOffset
						copy(w.Mem.Bytes()[addr:], f[:packet.EthernetLen+packet.IPv4Len])
						w.Chunk.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
						w.Chunk.Out[i] = batch.Result{}
					}
					submit()
					packets += len(frames)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
			}
			name := fmt.Sprintf("SAs=%d/bytes=%d", n, size)
			b.Run("all/"+name, func(b *testing.B) {
				run(b, func() { w.Engine.Submit(w.Chunk) })
				if v := w.Chunk.Out[255].Verdict; v != batch.Forward(1) {
					b.Fatal(v)
				}
			})
			b.Run("begin/"+name, func(b *testing.B) {
				run(b, func() {
					if n := w.Engine.ESP().Begin(w.Chunk.In[:w.Chunk.N], w.Chunk.Out[:w.Chunk.N], jobs, ipsec.NoKeyIndex); n != len(frames) {
						b.Fatal(n)
					}
				})
			})
			b.Run("crypto/"+name, func(b *testing.B) {
				s, _ := g.LookupOutbound(&[]gateway.Flow{gateway.FlowIPv4(bytes.Clone(frames[0])[packet.EthernetLen:])}[0])
				run(b, func() {
					for i := range frames {
						at := i*umem.FrameSize + umem.DataOffset
						s.Seal(0, w.Mem.Bytes()[at-64:at+2048-192], &ipsec.Outgoing{At: 64, Len: size + 20 + 16 + 2 + 16, ESP: 64 + 20, Seq: 1})
					}
				})
			})
		}
	}
}
