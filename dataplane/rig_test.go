package dataplane_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// rig is a router with one worker, memory ports, usually 0 and 1, and a route to each: 10.N.0.0/16 and fd0N::/64
// to port N.
type rig struct {
	t      *testing.T
	fib    *fib.FIB
	mem    *umem.Memory
	pool   *umem.Pool
	queues []*memport.Queue
	engine dataplane.Engine
	config dataplane.Config
	router *dataplane.Router
	adj    []uint32
	hops   []fib.NextHopID

	addresses dataplane.Addresses // of port 0

	mu   sync.Mutex
	out  [][][]byte
	asks []netip.Addr
}

func newRig(t *testing.T, maxPackets int) *rig { return newRigOf(t, 2, maxPackets) }

// newRigOf returns a rig with a number of ports.
func newRigOf(t *testing.T, ports, maxPackets int) *rig {
	r := &rig{
		t: t, fib: fib.New(1), queues: make([]*memport.Queue, ports), adj: make([]uint32, ports), hops: make([]fib.NextHopID, ports), out: make([][][]byte, ports),
	}
	var err error
	r.mem, err = umem.New((ports + 1) * 2048)
	require.NoError(t, err)
	t.Cleanup(func() { r.mem.Close() })
	r.pool = umem.NewPool(r.mem)
	r.engine = cpu.New(r.fib, r.mem.Bytes(), make([]bool, batch.MaxPorts))
	queues := make([][]dataplane.Queue, ports)
	for p := range uint16(ports) {
		r.queues[p] = memport.New(p, r.mem, r.pool)
		r.queues[p].Collect(func(f []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.out[p] = append(r.out[p], bytes.Clone(f))
		})
		queues[p] = []dataplane.Queue{r.queues[p]}
		r.fib.SetPort(p, fib.MAC(0x020000000000+uint64(p)), 1500)
		r.adj[p], _ = r.fib.NewAdjacency(p)
		r.fib.SetAdjacency(r.adj[p], p, 0x0200000000aa)
		id, err := r.fib.NewNextHop(fib.KindForward, fib.Path{Adjacency: r.adj[p], Weight: 1})
		require.NoError(t, err)
		r.hops[p] = id
		r.routeTo(id, fmt.Sprintf("10.%d.0.0/16", p), fmt.Sprintf("fd0%d::/64", p))
	}
	r.config = dataplane.Config{
		FIB: r.fib, Ports: ports, MaxPackets: maxPackets, MaxDelay: time.Millisecond,
		Unresolved: func(_ uint32, dst netip.Addr) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asks = append(r.asks, dst)
		},
		Workers: []dataplane.WorkerConfig{{
			CPU: affinity.Any, Memory: r.mem, Pool: r.pool, Engine: r.engine, Chunks: batch.NewChunks(4, maxPackets), Queues: queues,
		}},
	}
	return r
}

func (r *rig) start() { r.t.Helper(); r.configure(func() {}) }

// stop stops the router and checks that packets and frames are conserved.
func (r *rig) stop() *dataplane.Stats {
	r.t.Helper()
	r.router.Stop()
	s := r.router.Stats()
	var rx, tx, dropped uint64
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	for i := range s.Logical {
		dropped += s.Logical[i].Dropped()
	}
	if rx+uint64(s.Originated) != tx+dropped+uint64(s.Merged+s.Delivered) || s.Waiting != 0 {
		r.t.Errorf("%d packets received, %d originated, %d sent, %d dropped, %d merged, %d waiting", rx, s.Originated, tx, dropped, s.Merged, s.Waiting)
	}
	frames := r.pool.Len()
	for _, q := range r.queues {
		frames += q.Held()
	}
	if frames != r.mem.Frames() {
		r.t.Errorf("%d of %d frames left", frames, r.mem.Frames())
	}
	return s
}

// wait waits for a condition on the router's counts.
func (r *rig) wait(what string, cond func(*dataplane.Stats) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(r.router.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("timeout waiting for %s: %+v", what, r.router.Stats().Ports)
		}
	}
}

// run starts the router, waits for a condition on its counts, and stops it.
func (r *rig) run(what string, cond func(*dataplane.Stats) bool) *dataplane.Stats {
	r.t.Helper()
	r.start()
	r.wait(what, cond)
	return r.stop()
}

// startWithReturnRoute starts the router with addresses on port 0 and a route to the sources by it.
func (r *rig) startWithReturnRoute() {
	r.t.Helper()
	r.routeTo(r.hops[0], "192.0.2.0/24", "2001:db8::/64")
	r.addresses = dataplane.Addresses{IPv4: netip.MustParseAddr("192.0.2.254"), IPv6: netip.MustParseAddr("2001:db8::fe")}
	r.start()
}

// configure calls change between New and Start.
func (r *rig) configure(change func()) {
	r.t.Helper()
	var err error
	r.router, err = dataplane.New(r.config)
	require.NoError(r.t, err)
	r.router.SetAddresses(0, r.addresses)
	change()
	require.NoError(r.t, r.router.Start())
}

func (r *rig) hop(k fib.Kind, paths ...fib.Path) fib.NextHopID {
	r.t.Helper()
	id, err := r.fib.NewNextHop(k, paths...)
	require.NoError(r.t, err)
	return id
}

func (r *rig) routeTo(id fib.NextHopID, prefixes ...string) {
	r.t.Helper()
	for _, s := range prefixes {
		p, insert := netip.MustParsePrefix(s), r.fib.IPv4.Insert
		if p.Addr().Is6() {
			insert = r.fib.IPv6.Insert
		}
		require.NoError(r.t, insert(p, id))
	}
}

// numbered returns n frames to a destination that contain their number.
func numbered(n int, dst string) [][]byte {
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = testutil.UDP4("192.0.2.1", dst, 1, 2, binary.BigEndian.AppendUint32(nil, uint32(i))...)
	}
	return frames
}

// checkOrder checks that the frames that left by port 1 have the numbers 0, 1, and so on.
func (r *rig) checkOrder() {
	r.t.Helper()
	for i, f := range r.out[1] {
		if number(f) != i {
			r.t.Fatalf("packet %d leaves as number %d", number(f), i)
		}
	}
}

func number(frame []byte) int { return int(binary.BigEndian.Uint32(frame[42:])) }
