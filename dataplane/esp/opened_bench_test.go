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

// BenchmarkConfirmOpened measures the host's part of packets that a device has opened, per packet, for one of 8 workers with
// a number of SAs each, round-robin.
func BenchmarkConfirmOpened(b *testing.B) {
	const workers = 8
	for _, n := range []int{1, 125, 1250, 3750} {
		b.Run(fmt.Sprintf("SAs=%d", n), func(b *testing.B) {
			w, g := newWorld(b), &gateway.Gateway{}
			var sas []*ipsec.SA
			for i := range n * workers { // each worker has its own
				c := config(ipsec.In, false)
				c.Name, c.SPI, c.ReplayWindow, c.Tunnel = fmt.Sprint(i), uint32(0x1000+i), 1024, g.Tunnel(fmt.Sprint(i))
				sa, err := ipsec.NewSA(c, workers)
				require.NoError(b, err)
				require.NoError(b, g.Add(sa))
				sas = append(sas, sa)
			}
			w.Engine.Secure(g, 1)
			stage := w.Engine.ESP()
			const size = 448
			order := rand.New(rand.NewPCG(1, 1)).Perm(n)
			in, out, results, reports := make([]batch.Frame, size), make([]batch.Result, size), make([]batch.Result, size), make([]esp.SAReport, size)
			seq := make([]uint32, n*workers)
			next, took := 0, []time.Duration(nil)
			for b.Loop() {
				for i := range in {
					k := order[next%n]*workers + 3
					next++
					seq[k]++
					in[i] = batch.Frame{Addr: uint32(i)*4096 + 130, Len: 120, Origin: wan}
					results[i] = batch.ForwardTo(lan, in[i].Addr+36+esp.Admitted, 78)
					reports[i] = esp.SAReport(seq[k])<<32 | esp.SAReport(sas[k].KeyIndex())
				}
				start := time.Now()
				stage.BeginOpened(in, out, nil, gateway.MaxKeys)
				if n := stage.AddOpened(0, results, reports, 3); n != size {
					b.Fatal(n)
				}
				stage.ConfirmOpened()
				took = append(took, time.Since(start))
			}
			if out[7].Verdict != batch.Forward(lan) || stage.Received() != size {
				b.Fatal(out[7].Verdict)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/size, "ns/packet")
		})
	}
}
