package cpu

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// tunnels is a world whose gateway has n tunnels, and a chunk of packets of which each goes
// into the next one.
func tunnels(b *testing.B, n, size int) (w *world, frames [][]byte) {
	w = newWorld(b)
	g := &gateway.Gateway{}
	var rules []gateway.Rule
	for i := range n {
		c := config(esp.Out, false)
		c.Name, c.SPI = fmt.Sprint(i), uint32(0x1000+i)
		c.Bundle = g.Bundle(c.Name)
		s, err := esp.NewSA(c, 2)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Add(s); err != nil {
			b.Fatal(err)
		}
		src := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		rules = append(rules, gateway.Rule{Direction: esp.Out, Policy: policy.Policy{
			Src: netip.PrefixFrom(src, 32), Dst: prefix("10.1.0.0/16"), Action: policy.Protect, Target: c.Bundle,
		}})
	}
	if err := g.SetRules(rules); err != nil {
		b.Fatal(err)
	}
	w.engine.Secure(g, 0)
	for i := range 256 {
		src := netip.AddrFrom4([4]byte{192, 0, byte(i % n >> 8), byte(i % n)})
		frames = append(frames, testutil.UDP4(src.String(), "10.1.0.9", 1000, 53, make([]byte, size-28)...))
	}
	return w, frames
}

// What an outbound packet of a gateway costs the processor: all of it, and what is left
// when a device seals it, the part before the device.
func BenchmarkGateway(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, size := range []int{64, 1408} {
			w, frames := tunnels(b, n, size)
			for i, f := range frames {
				copy(w.mem.Bytes()[i*umem.FrameSize+umem.DataOffset:], f)
			}
			w.chunk.N = len(frames)
			tasks := make([]Task, len(frames))
			run := func(b *testing.B, submit func()) {
				b.Helper()
				packets := 0
				for b.Loop() {
					for i, f := range frames { // as they were received
						addr := uint32(i)*umem.FrameSize + umem.DataOffset
						copy(w.mem.Bytes()[addr:], f[:packet.EthernetLen+packet.IPv4Len])
						w.chunk.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
						w.chunk.Out[i] = batch.Result{}
					}
					submit()
					packets += len(frames)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
			}
			name := fmt.Sprintf("SAs=%d/bytes=%d", n, size)
			b.Run("all/"+name, func(b *testing.B) {
				run(b, func() { w.engine.Submit(w.chunk) })
				if v := w.chunk.Out[255].Verdict; v != batch.Forward(1) {
					b.Fatal(v)
				}
			})
			b.Run("begin/"+name, func(b *testing.B) {
				run(b, func() {
					if n := w.engine.Begin(w.chunk.In[:w.chunk.N], w.chunk.Out[:w.chunk.N], tasks, esp.NoNumber); n != len(frames) {
						b.Fatal(n)
					}
				})
			})
			b.Run("crypto/"+name, func(b *testing.B) {
				l := w.engine.ipsec.gateway
				s, _ := l.Protect(&[]gateway.Flow{gateway.FlowIPv4(bytes.Clone(frames[0])[packet.EthernetLen:])}[0])
				run(b, func() {
					for i := range frames {
						at := i*umem.FrameSize + umem.DataOffset
						s.Seal(0, w.mem.Bytes()[at-64:at+2048-192], &esp.Outgoing{At: 64, Len: size + 20 + 16 + 2 + 16, ESP: 64 + 20, Seq: 1})
					}
				})
			})
		}
	}
}
