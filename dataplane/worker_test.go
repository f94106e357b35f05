package dataplane_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// rig is a router with one worker, memory ports 0 and 1, and a route to each.
type rig struct {
	t      *testing.T
	fib    *fib.FIB
	mem    *umem.Memory
	pool   *umem.Pool
	slab   *batch.Slab
	queues [2]*memport.Queue
	engine dataplane.Engine
	config dataplane.Config
	router *dataplane.Router
	adj    [2]uint32
	hops   [2]fib.ID

	addresses dataplane.Addresses // of port 0

	mu   sync.Mutex
	out  [2][][]byte
	asks []netip.Addr
}

func newRig(t *testing.T, maxPackets int) *rig {
	r := &rig{t: t, fib: fib.New(1)}
	var err error
	if r.mem, err = umem.New(3 * 2048); err != nil {
		t.Fatal(err)
	}
	if r.slab, err = batch.NewSlab(4, maxPackets); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.mem.Close(); r.slab.Close() })
	r.pool = umem.NewPool(r.mem)
	r.engine = cpu.New(r.fib, r.mem.Bytes(), make([]bool, 2))
	queues := make([][]dataplane.Queue, 2)
	for p := range uint16(2) {
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
		if err != nil {
			t.Fatal(err)
		}
		r.hops[p] = id
		for _, s := range []string{fmt.Sprintf("10.%d.0.0/16", p), fmt.Sprintf("fd0%d::/64", p)} {
			prefix, insert := netip.MustParsePrefix(s), r.fib.IPv4.Insert
			if prefix.Addr().Is6() {
				insert = r.fib.IPv6.Insert
			}
			if err := insert(prefix, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.config = dataplane.Config{
		FIB: r.fib, Ports: 2, MaxPackets: maxPackets, MaxDelay: time.Millisecond,
		Unresolved: func(_ uint32, dst netip.Addr) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asks = append(r.asks, dst)
		},
		Workers: []dataplane.WorkerConfig{{
			CPU: affinity.Any, Memory: r.mem, Pool: r.pool, Engine: r.engine, Chunks: r.slab, Queues: queues,
		}},
	}
	return r
}

func (r *rig) start() {
	r.t.Helper()
	router, err := dataplane.New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	router.SetAddresses(0, r.addresses)
	if err := router.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.router = router
}

// stop stops the router and checks that every packet and every frame is accounted for.
func (r *rig) stop() *dataplane.Stats {
	r.t.Helper()
	r.router.Stop()
	s := r.router.Stats()
	var rx, tx, dropped uint64
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	if rx+uint64(s.Made) != tx+dropped+uint64(s.Merged+s.Delivered) || s.Held != 0 {
		r.t.Errorf("%d packets received, %d made, %d sent, %d dropped, %d merged, %d held", rx, s.Made, tx, dropped, s.Merged, s.Held)
	}
	if frames := r.pool.Len() + r.queues[0].Held() + r.queues[1].Held(); frames != r.mem.Frames() {
		r.t.Errorf("%d of %d frames are left", frames, r.mem.Frames())
	}
	return s
}

// wait waits for a condition on the router's counts.
func (r *rig) wait(what string, cond func(*dataplane.Stats) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(r.router.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for %s: %+v", what, r.router.Stats().Ports)
		}
	}
}

// numbered returns n frames to a destination that carry their number.
func numbered(n int, dst string) [][]byte {
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = testutil.UDP4("192.0.2.1", dst, 1, 2, binary.BigEndian.AppendUint32(nil, uint32(i))...)
	}
	return frames
}

func number(frame []byte) int { return int(binary.BigEndian.Uint32(frame[42:])) }

func TestPacketsLeaveInOrderWhateverTheChunkSize(t *testing.T) {
	for _, max := range []int{1, 7, 64, 1024} {
		r := newRig(t, max)
		r.queues[0].Play(numbered(5000, "10.1.0.1"), 5000)
		r.start()
		r.wait("5000 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 5000 })
		s := r.stop()
		for i, f := range r.out[1] {
			if number(f) != i {
				t.Fatalf("chunks of %d: packet %d leaves as number %d", max, number(f), i)
			}
		}
		if s.Packets.Sum != 5000 || s.Stages[dataplane.StageTotal].Count != s.Chunks {
			t.Errorf("chunks of %d: %d packets in %d chunks, %d latencies", max, s.Packets.Sum, s.Chunks, s.Stages[dataplane.StageTotal].Count)
		}
		if s.Ports[0].RxBytes != 5000*60 || s.Ports[1].TxBytes != 5000*46 {
			t.Errorf("%d bytes received, %d sent", s.Ports[0].RxBytes, s.Ports[1].TxBytes)
		}
	}
}

// There is one queue a port: what came first leaves first, whatever its precedence.
func TestPrecedenceChangesNoOrder(t *testing.T) {
	const n = 3000
	frames := make([][]byte, n)
	for i := range frames {
		label, tos := binary.BigEndian.AppendUint32(nil, uint32(i)), byte(i*0x20)
		if i%2 == 0 {
			frames[i] = testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, label...), 1, tos)
		} else {
			frames[i] = testutil.Edit(testutil.UDP6("2001:db8::1", "fd01::1", 1, 2, label...), 0, 0x60|tos>>4, tos<<4)
		}
	}
	r := newRig(t, 64)
	r.queues[0].Play(frames, n)
	r.start()
	r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == n })
	r.stop()
	for i, f := range r.out[1] {
		if got := int(binary.BigEndian.Uint32(f[len(f)-4:])); got != i {
			t.Fatalf("packet %d leaves as number %d", got, i)
		}
	}
}

func TestDropsAreCountedByReasonAndIngressPort(t *testing.T) {
	r := newRig(t, 64)
	bad := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2)
	bad[22] = 1 // TTL, and so the checksum
	r.queues[0].Play([][]byte{bad, bad[:20]}, 200)
	r.queues[1].Play(numbered(1, "172.16.0.1"), 50)
	r.start()
	r.wait("250 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped()+s.Ports[1].Dropped() == 250 })
	s := r.stop()
	if d := s.Ports[0].Drops; d[batch.BadChecksum] != 100 || d[batch.TooShort] != 100 {
		t.Errorf("port 0: %v", d)
	}
	if d := s.Ports[1].Drops; d[batch.NoRoute] != 50 {
		t.Errorf("port 1: %v", d)
	}
}

// drip is a port that has one packet whenever it is asked.
type drip struct{ dataplane.Queue }

func (d *drip) Receive(dst []batch.Frame) int { return d.Queue.Receive(dst[:min(len(dst), 1)]) }

// A chunk is sealed when it is full, when the rings are dry, or when its first
// packet has waited for as long as it may.
func TestChunksAreSealed(t *testing.T) {
	for _, c := range []struct {
		name     string
		drip     bool
		packets  int
		maxDelay time.Duration
		ok       func(s *dataplane.Stats) bool
	}{
		{"full", false, 6400, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 100 }},
		{"dry", false, 3, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 1 }},
		{"full by drips", true, 640, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 10 }},
		{"no patience", true, 50, 0, func(s *dataplane.Stats) bool { return s.Chunks == 50 }},
	} {
		r := newRig(t, 64)
		r.config.MaxDelay = c.maxDelay
		if c.drip {
			r.config.Workers[0].Queues[0][0] = &drip{r.queues[0]}
		}
		r.config.Workers[0].Queues[1][0] = r.queues[1]
		r.queues[0].Play(numbered(c.packets, "10.1.0.1"), c.packets)
		r.start()
		r.wait(c.name, func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == uint64(c.packets) })
		if s := r.stop(); !c.ok(s) {
			t.Errorf("%s: %d packets in %d chunks", c.name, c.packets, s.Chunks)
		}
	}
}

// stuck is a port that takes no more than a few packets to send.
type stuck struct {
	dataplane.Queue
	room int
}

func (s *stuck) Transmit(src []batch.Frame) int {
	n := s.Queue.Transmit(src[:min(len(src), s.room)])
	s.room -= n
	return n
}

func TestAFullPortDropsAndCounts(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Queues[1][0] = &stuck{r.queues[1], 100}
	r.queues[0].Play(numbered(300, "10.1.0.1"), 300)
	r.start()
	r.wait("300 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 300 })
	s := r.stop()
	if s.Ports[1].TxPackets != 100 || s.Ports[0].Drops[batch.TxFull] != 200 {
		t.Errorf("%d sent, %d dropped", s.Ports[1].TxPackets, s.Ports[0].Drops[batch.TxFull])
	}
}

func TestStoppingUnderLoadAccountsForEverything(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Play(numbered(1000, "172.16.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	time.Sleep(50 * time.Millisecond)
	r.queues[0].Pause()
	r.queues[1].Pause()
	s := r.stop()
	if s.Ports[1].TxPackets == 0 || s.Ports[1].Drops[batch.NoRoute] == 0 {
		t.Errorf("nothing went through: %+v", s.Ports)
	}
}

// Idle is the time without anything to do, polling or asleep, and no other.
func TestIdleTimeIsCounted(t *testing.T) {
	const span = 300 * time.Millisecond
	for name, spin := range map[string]time.Duration{"asleep": 0, "polling": time.Hour} {
		r := newRig(t, 64)
		r.config.Spin = spin
		start := time.Now()
		r.start()
		time.Sleep(span)
		idle := r.stop().Idle
		if idle < span/2 || idle > time.Since(start) {
			t.Errorf("%s for %v: idle for %v", name, span, idle)
		}
	}
	r := newRig(t, 64)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	time.Sleep(span)
	idle := r.router.Stats().Idle
	r.queues[0].Pause()
	if r.stop(); idle > span/10 {
		t.Errorf("always with packets for %v: idle for %v", span, idle)
	}
}

// A port at full load does not keep out the others, whatever its number.
func TestPortsShareTheChunks(t *testing.T) {
	for _, max := range []int{1, 256} {
		r := newRig(t, max)
		r.queues[0].Play(numbered(1000, "172.16.0.1"), -1)
		r.queues[1].Play(numbered(1000, "172.16.0.1"), -1)
		r.start()
		r.wait("50000 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets > 50_000 })
		s := r.stop()
		if a, b := s.Ports[0].RxPackets, s.Ports[1].RxPackets; a > b*11/10 || b > a*11/10 {
			t.Errorf("chunks of %d: port 0 received %d packets, port 1 %d", max, a, b)
		}
	}
}

// A million cut, stretched and overwritten frames: each is forwarded or counted
// under a reason that an engine gives, and the frames among them that are good
// all arrive.
func TestAMillionBadFrames(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	good := numbered(1, "10.1.0.1")[0]
	var frames [][]byte
	for range 10_000 {
		f := bytes.Clone([][]byte{good, testutil.UDP6("2001:db8::1", "fd01::1", 1, 2, 3, 4)}[rnd.IntN(2)])
		for range 1 + rnd.IntN(3) {
			if rnd.IntN(4) == 0 {
				f = f[:rnd.IntN(len(f)+1)]
			}
			if len(f) > 0 {
				f[rnd.IntN(len(f))] = byte(rnd.Uint32())
			}
		}
		frames = append(frames, f, good)
	}
	const total = 2_000_000
	r := newRig(t, 1024)
	arrived := 0
	for _, q := range r.queues {
		q.Collect(func(f []byte) {
			if len(f) >= 46 && bytes.Equal(f[34:46], good[34:46]) && f[30] == 10 && f[31] == 1 && f[22] == 63 {
				arrived++
			}
		})
	}
	r.queues[0].Play(frames, total)
	r.start()
	r.wait("all", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == total })
	s := r.stop()
	if arrived < total/2 {
		t.Errorf("%d of %d good packets arrived", arrived, total/2)
	}
	if d := s.Ports[0].Drops; d[batch.Unprocessed] != 0 || d[batch.TxFull] != 0 || d[batch.TooShort] == 0 || d[batch.BadChecksum] == 0 {
		t.Errorf("drops: %v", d)
	}
}

// With ports that never run dry the router stops all the same.
func TestStoppingUnderEndlessLoad(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	start := time.Now()
	r.stop()
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestWrongConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*dataplane.Config)
		want  string
	}{
		"no workers":    {func(c *dataplane.Config) { c.Workers = nil }, "router without workers"},
		"no ports":      {func(c *dataplane.Config) { c.Ports = 0 }, "router with 0 ports: 1 to 4096 are possible"},
		"ports missing": {func(c *dataplane.Config) { c.Ports = 3 }, "worker 0: has queues of 2 ports, not of 3"},
		"no queue":      {func(c *dataplane.Config) { c.Workers[0].Queues[1] = nil }, "worker 0: has no queue of port 1"},
		"chunks small":  {func(c *dataplane.Config) { c.MaxPackets = 65 }, "worker 0: its chunks do not hold max_packets, 65"},
	} {
		r := newRig(t, 64)
		c.spoil(&r.config)
		if _, err := dataplane.New(r.config); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r := newRig(t, 64)
	r.config.Workers[0].CPU = 1000
	router, err := dataplane.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := router.Start(); err == nil {
		t.Error("a worker was pinned to CPU 1000")
	}
}
