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
	compareRates(b, []string{"untagged", "VLAN"}, benchWorker(b, vlans, false), benchWorker(b, vlans, true))
}

// compareRates runs the loops of workers alternately, and reports the median of each one's rate, in packets per second of
// the thread's processor time, and of the ratio of each to the first in the same round, with its quartiles.
func compareRates(b *testing.B, units []string, workers ...*worker) {
	const rounds, perRound = 401, 40
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rates, ratios := make([][]float64, len(workers)), make([][]float64, len(workers))
	for range b.N {
		for range rounds {
			for i, w := range workers {
				from, start := w.stats.chunks.Load(), cpuTime(b)
				for range perRound {
					w.receive(batch.Clock())
					w.complete()
					w.reclaim()
					w.refill()
				}
				rates[i] = append(rates[i], float64(w.stats.chunks.Load()-from)*benchChunk/(cpuTime(b)-start).Seconds())
				ratios[i] = append(ratios[i], rates[i][len(rates[i])-1]/rates[0][len(rates[0])-1])
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range units {
		slices.Sort(rates[i])
		slices.Sort(ratios[i])
		n := len(rates[i])
		b.ReportMetric(rates[i][n/2]/1e6, unit+"-Mpps")
		if i > 0 {
			b.ReportMetric(ratios[i][n/2], unit+"-ratio")
			b.ReportMetric(ratios[i][n/4], unit+"-ratio-q1")
			b.ReportMetric(ratios[i][3*n/4], unit+"-ratio-q3")
			b.ReportMetric(1e9/rates[i][n/2]-1e9/rates[0][n/2], unit+"-added-ns")
		}
	}
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
func benchWorker(b testing.TB, networks int, vlans bool) *worker {
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
	q.Play(slices.Repeat(frames, (benchChunk+networks-1)/networks), -1) // no shorter bursts
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

// The parts of a packet's time that tags add, in cache: removing a tag, and listing a packet with a tag or without one.
func BenchmarkTags(b *testing.B) {
	w := benchWorker(b, 256, true)
	in, c := make([]batch.Frame, benchChunk), w.free[0]
	for range 2 { // the second burst finds all VLANs in tallies
		if n := w.rx.queues[0].Receive(in); n != benchChunk {
			b.Fatal(n)
		}
		copy(c.In, in)
		c.N, _, _ = w.untag(c.In[:benchChunk])
		w.engine.Submit(c)
		w.dispatch(c)
		w.tx[0].n = 0
	}
	loops := map[string]func(){
		"remove": func() { removal := w.logical.removalFrom(0); removal.apply(w.mem, in, c.In) },
		"list":   func() { w.dispatch(c); w.tx[0].n = 0 },
	}
	for _, name := range []string{"remove", "list", "list-untagged"} {
		loop := loops[name]
		if loop == nil {
			for i := range c.Out[:c.N] {
				c.Out[i].Verdict = batch.Forward(0)
			}
			loop = loops["list"]
		}
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := cpuTime(b)
			for range b.N {
				loop()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N)/benchChunk, "ns/packet")
		})
	}
}
