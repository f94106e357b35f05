package esp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// BenchmarkAcceptSealed measures the host's part of packets that a device has sealed with lent sequence numbers, per packet, for
// one of 8 workers with a number of SAs, round-robin.
func BenchmarkAcceptSealed(b *testing.B) {
	const workers, size = 8, 448
	for _, n := range []int{1, 1000, 10_000, 30_000} {
		b.Run(fmt.Sprintf("SAs=%d", n), func(b *testing.B) {
			w, g := newWorld(b), &gateway.Gateway{}
			var keys []uint32
			for i := range n {
				c := config(ipsec.Out, false)
				c.Name, c.SPI, c.Tunnel = fmt.Sprint(i), uint32(0x1000+i), g.Tunnel(fmt.Sprint(i))
				sa, err := ipsec.NewSA(c, workers)
				require.NoError(b, err)
				require.NoError(b, g.Add(sa))
				keys = append(keys, sa.KeyIndex())
			}
			w.Engine.Secure(g, 1)
			stage := w.Engine.ESP()
			stage.BeginSealed(nil, 0, gateway.MaxKeys)
			order := rand.New(rand.NewPCG(1, 1)).Perm(n)
			in, out, results, reports := make([]batch.Frame, size), make([]batch.Result, size), make([]batch.Result, size), make([]esp.SAReport, size)
			next, took := 0, []time.Duration(nil)
			for b.Loop() {
				for i := range in {
					in[i] = batch.Frame{Addr: uint32(i)*4096 + 130, Len: 78, Origin: lan}
					reports[i] = esp.SAReport(64<<32) | esp.SAReport(keys[order[next%n]])
					f := in[i]
					stage.SealedBy(stage.Sealer(reports[i].KeyIndex()), &f, 64)
					results[i] = batch.ForwardTo(wan, f.Addr, f.Len)
					next++
				}
				start := time.Now()
				stage.BeginSealed(nil, 0, gateway.MaxKeys)
				acceptSealed(b, stage, in, out, results, reports)
				stage.EndSealed()
				took = append(took, time.Since(start))
			}
			if aead, _ := stage.Protected(); aead != size || out[7] != results[7] {
				b.Fatal(aead, out[7])
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/size, "ns/packet")
		})
	}
}

func acceptSealed(b *testing.B, stage *esp.Stage, in []batch.Frame, out, results []batch.Result, reports []esp.SAReport) {
	for i := 0; i < len(in); {
		n, _ := stage.AcceptSealed(in[i:], out[i:], results[i:], reports[i:], 3)
		if n == 0 {
			b.Fatal(i)
		}
		i += n
	}
}
