package dataplane

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// Packets that arrive and leave with a tag, in a number of VLANs, against untagged ones of the same worker
// loop on memory ports. The two alternate; the ratio of the medians of their rates is reported.
func BenchmarkVLAN(b *testing.B) {
	for _, vlans := range []int{1, 16, 4000} {
		b.Run(fmt.Sprint(vlans), func(b *testing.B) { benchmarkVLAN(b, vlans) })
	}
}

func benchmarkVLAN(b *testing.B, vlans int) {
	const rounds, perRound = 41, 400
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	untagged, tagged := benchWorker(b, vlans, false), benchWorker(b, vlans, true)
	var rates [2][]float64
	for range b.N {
		for range rounds {
			for i, w := range []*worker{untagged, tagged} {
				from, start := w.stats.chunks.Load(), cpuTime(b)
				for range perRound {
					w.receive(batch.Clock())
					w.complete()
					w.reclaim()
					w.refill()
				}
				rates[i] = append(rates[i], float64(w.stats.chunks.Load()-from)*benchChunk/(cpuTime(b)-start).Seconds())
			}
		}
	}
	slices.Sort(rates[0])
	slices.Sort(rates[1])
	u, t := rates[0][len(rates[0])/2], rates[1][len(rates[1])/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(u/1e6, "untagged-Mpps")
	b.ReportMetric(t/1e6, "VLAN-Mpps")
	b.ReportMetric(t/u, "ratio")
}

const benchChunk = 256

// cpuTime returns the processor time of the calling thread.
func cpuTime(b *testing.B) time.Duration {
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// benchWorker returns a worker that forwards packets of a port to a number of networks behind it, each in a
// VLAN of its own, or untagged.
func benchWorker(b *testing.B, networks int, vlans bool) *worker {
	mem, err := umem.New(8192)
	require.NoError(b, err)
	b.Cleanup(func() { mem.Close() })
	f, pool := fib.New(1), umem.NewPool(mem)
	f.SetPort(0, 2, 1500)
	var frames [][]byte
	ports := []uint16{0}
	for i := range networks {
		port := uint16(0)
		frame := testutil.UDP4("192.0.2.1", fmt.Sprintf("10.%d.%d.1", i/256, i%256), 1, 2)
		if vlans {
			port = addVLAN(b, f, 0, uint16(i+1))
			ports = append(ports, port)
			frame = slices.Concat(frame[:12], []byte{0x81, 0}, binary.BigEndian.AppendUint16(nil, uint16(i+1)), frame[12:])
		} else {
			frame = append(frame, 0, 0, 0, 0) // the port costs the same
		}
		frame[11] = byte(i) // as much as tags, for a recording that stores all frames
		adjacency, _ := f.NewAdjacency(port)
		f.SetAdjacency(adjacency, port, 4)
		id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
		require.NoError(b, f.IPv4.Insert(netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)), id))
		frames = append(frames, frame)
	}
	q := memport.New(0, mem, pool)
	q.Play(frames, -1)
	r, err := New(Config{
		FIB: f, Ports: 1, MaxPackets: benchChunk, MaxDelay: time.Second,
		Workers: []WorkerConfig{{
			CPU: affinity.Any, Memory: mem, Pool: pool, Chunks: batch.NewChunks(2, benchChunk),
			Engine: cpu.New(f, mem.Bytes(), make([]bool, batch.MaxPorts)), Queues: [][]Queue{{q}},
		}},
	})
	require.NoError(b, err)
	for _, p := range ports[1:] {
		r.AddPort(p, 0)
	}
	w := r.workers[0]
	w.refill()
	return w
}
