package dataplane

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/packet/filter"
	"github.com/warproute/warproute/umem"
)

// The packets are forwarded, dropped, queued and retried, with captures and without, in one lane and in two.
func TestWorkerLoopDoesNotAllocate(t *testing.T) {
	testAllocations(t, nil)
	lanes, err := lane.Compile([]lane.Lane{
		{Name: "a", Deadline: time.Microsecond, Match: []lane.Match{{Protocol: 17, DstPorts: lane.Range{First: 2, Last: 2}, Plain: true}}}, {Name: "b"},
	}, &gateway.Gateway{})
	require.NoError(t, err)
	testAllocations(t, lanes)
}

// addVLAN adds VLAN vid of a port as the first logical port.
func addVLAN(t testing.TB, f *fib.FIB, port, vid uint16) (number uint16) {
	t.Helper()
	if f.VLANs.Used() == 0 {
		f.VLANs.SetPhysical(1)
	}
	number, err := f.VLANs.Take()
	require.NoError(t, err)
	tag, _ := fib.MakeTag(0x8100, vid)
	require.NoError(t, f.VLANs.Add(number, port, tag))
	f.SetPort(number, 3, 1500)
	return number
}

func testAllocations(t *testing.T, lanes *lane.Lanes) {
	t.Helper()
	mem, err := umem.New(8192)
	require.NoError(t, err)
	chunks := batch.NewChunks(2, 64)
	t.Cleanup(func() { mem.Close() })
	f, pool := fib.New(1), umem.NewPool(mem)
	f.SetPort(0, 2, 1500)
	for prefix, mac := range map[string]fib.MAC{"10.1.0.0/16": 4, "10.2.0.0/16": 0} {
		adj, _ := f.NewAdjacency(0)
		f.SetAdjacency(adj, 0, mac)
		id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1})
		require.NoError(t, f.IPv4.Insert(netip.MustParsePrefix(prefix), id))
	}
	vlan := addVLAN(t, f, 0, 100)
	adj, _ := f.NewAdjacency(vlan)
	f.SetAdjacency(adj, vlan, 4)
	id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1})
	require.NoError(t, f.IPv4.Insert(netip.MustParsePrefix("10.3.0.0/16"), id))
	tagged := func(vid byte) []byte {
		frame := testutil.UDP4("192.0.2.1", "10.3.0.1", 1, 2)
		return slices.Concat(frame[:12], []byte{0x81, 0, 0, vid}, frame[12:])
	}
	q := memport.New(0, mem, pool)
	q.Play([][]byte{
		testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2), testutil.UDP4("192.0.2.1", "10.2.0.1", 1, 2),
		testutil.UDP4("192.0.2.1", "172.16.0.1", 1, 2), {1, 2, 3}, tagged(100), tagged(101),
	}, -1)
	r, err := New(Config{
		FIB: f, Ports: 1, Lanes: lanes, MaxPackets: 64, MaxDelay: time.Second,
		Workers: []WorkerConfig{{
			CPU: affinity.Any, Memory: mem, Pool: pool, Chunks: chunks,
			Engine: cpu.New(f, mem.Bytes(), slices.Repeat([]bool{true}, batch.MaxPorts)), Queues: [][]Queue{{q}},
		}},
	})
	require.NoError(t, err)
	r.AddPort(vlan, 0)
	w := r.workers[0]
	iteration := func() {
		f.Commit() // so that the waiting packets are retried
		w.receive(batch.Clock())
		w.complete()
		w.reclaim()
		w.refill()
		w.logical.flush() // as once in flushInterval
	}
	iteration()
	if n := testing.AllocsPerRun(200, iteration); n != 0 {
		t.Errorf("an iteration allocates %v times", n)
	}
	// The same with captures that nothing reads.
	all := CaptureConfig{Points: [NumPoints]bool{true, true, true, true}, Filter: &filter.Filter{}, Snap: 100, Room: 1000}
	for i := range all.Reasons {
		all.Reasons[i] = true
	}
	capture := r.StartCapture(all)
	if n := testing.AllocsPerRun(200, iteration); n != 0 {
		t.Errorf("an iteration with a capture allocates %v times", n)
	}
	captured, missed := capture.Counts(0)
	more, _ := capture.Counts(int(vlan))
	if captured += more; captured != 1000 || missed == 0 {
		t.Errorf("%d packets were captured and %d missed", captured, missed)
	}
	if w.stats.waiting.Load() == 0 || r.Stats().Ports[0].TxPackets == 0 || r.Stats().Ports[0].Drops[batch.VLANUnknown] == 0 || r.Stats().Logical[0].TxPackets == 0 {
		t.Errorf("a packet did not take every path: %+v, %d waiting", r.Stats().Ports[0], w.stats.waiting.Load())
	}
}
