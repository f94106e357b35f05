package afxdp

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// BenchmarkSteer measures the time of both programs per frame, as Linux does (kernel.bpf_stats_enabled), on a port
// without a socket: decision, counter and, of stripped tags, adding the tag. Linux's measurement costs the same each time.
func BenchmarkSteer(b *testing.B) {
	enterNamespace(b)
	addVeth(b, "ra", "a", 1)
	s := open(b, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(b, 64)}, RingSize: 64})
	p := s.Ports[0].program
	if p.stripped == nil {
		b.Skip(p.unread)
	}
	require.NoError(b, s.Ports[0].SetMAC(portMAC))
	require.NoError(b, s.SetVLAN(0, VLANKey{0, 5}, 100, portMAC))
	require.NoError(b, p.Sockets.Delete(uint32(0)))
	measuring, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	require.NoError(b, err)
	defer measuring.Close()
	in := newWire(b, "a")
	untagged := udp(portMAC, 1, 1, 60)
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		frame   []byte
		strip   bool
	}{
		{"steer/untagged", p.Steer, untagged, false},
		{"steer_stripped/untagged", p.stripped, untagged, false},
		{"steer/tag in frame", p.Steer, inVLAN(untagged, q, 5), false},
		{"steer_stripped/tag in frame", p.stripped, inVLAN(untagged, q, 5), false},
		{"steer_stripped/stripped tag", p.stripped, inVLAN(untagged, q, 5), true},
	} {
		if c.strip { // not in the benchmark's goroutine, which is in another namespace
			defer stripTags(b, "a")()
		}
		b.Run(c.name, func(b *testing.B) {
			require.NoError(b, p.link.Update(c.program))
			time := func() (ns, frames float64) {
				info, err := c.program.Stats()
				require.NoError(b, err)
				return float64(info.Runtime), float64(info.RunCount)
			}
			ns, frames := time()
			for b.Loop() {
				in.send(c.frame)
			}
			after, n := time()
			b.ReportMetric((after-ns)/(n-frames), "ns/frame")
			b.ReportMetric(0, "ns/op") // is that of veth
		})
	}
}
