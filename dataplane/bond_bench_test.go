package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// Packets of 256 flows that arrive and leave by a port, by a bond of which one member transmits, and by one of which two
// do, on memory ports. The three alternate; the medians of their rates are reported.
func BenchmarkBond(b *testing.B) {
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		b.Run(name, func(b *testing.B) {
			compareRates(b, []string{"port", "ports", "one", "two"}, benchBondWorker(b, ipv6, 0), benchBondWorker(b, ipv6, -2), benchBondWorker(b, ipv6, 1), benchBondWorker(b, ipv6, 2))
		})
	}
}

// benchBondWorker returns a worker with two ports that forwards packets of port 0 to a bond of both, of which a number of
// members transmit, or with 0 to port 0.
func benchBondWorker(b *testing.B, ipv6 bool, members int) *worker {
	mem, err := umem.New(16384)
	require.NoError(b, err)
	b.Cleanup(func() { mem.Close() })
	f, pool := fib.New(1), umem.NewPool(mem)
	f.VLANs.SetPhysical(2)
	number := uint16(0)
	if members > 0 {
		number, _ = f.VLANs.Take()
		f.Bonds.Add(number)
		f.Bonds.SetMaster(0, number)
		f.Bonds.SetMembers(number, []fib.Path{{Adjacency: 0, Weight: 1}, {Adjacency: 1, Weight: 1, Dead: members == 1}})
	}
	f.SetPort(number, 2, 1500)
	adjacency, _ := f.NewAdjacency(number)
	f.SetAdjacency(adjacency, number, 4)
	id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
	require.NoError(b, f.IPv4.Insert(netip.MustParsePrefix("10.0.0.0/8"), id))
	require.NoError(b, f.IPv6.Insert(netip.MustParsePrefix("fd00::/16"), id))
	if members < 0 { // the other half of the flows leaves by the other port
		f.SetPort(1, 2, 1500)
		adjacency, _ := f.NewAdjacency(1)
		f.SetAdjacency(adjacency, 1, 4)
		id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
		require.NoError(b, f.IPv4.Insert(netip.MustParsePrefix("10.0.0.1/32"), id))
		require.NoError(b, f.IPv6.Insert(netip.MustParsePrefix("fd00::1/128"), id))
	}
	var frames [][]byte
	rnd := rand.New(rand.NewPCG(1, 1))
	for flow := range uint16(256) {
		host := rnd.IntN(2)
		if ipv6 {
			frames = append(frames, testutil.UDP6("2001:db8::1", fmt.Sprintf("fd00::%d", host), flow, 2))
		} else {
			frames = append(frames, testutil.UDP4("192.0.2.1", fmt.Sprintf("10.0.0.%d", host), flow, 2))
		}
	}
	cfg := Config{FIB: f, Ports: 2, MaxPackets: benchChunk, MaxDelay: time.Second}
	var queues [][]Queue
	for port := range uint16(2) {
		q := memport.New(port, mem, pool)
		if queues = append(queues, []Queue{q}); port == 0 {
			q.Play(frames, -1)
		}
	}
	cfg.Workers = []WorkerConfig{{
		CPU: affinity.Any, Memory: mem, Pool: pool, Chunks: batch.NewChunks(2, benchChunk),
		Engine: cpu.New(f, mem.Bytes(), make([]bool, batch.MaxPorts)), Queues: queues,
	}}
	r, err := New(cfg)
	require.NoError(b, err)
	if members > 0 {
		r.AddPort(number, 0)
	}
	w := r.workers[0]
	w.refill()
	return w
}
