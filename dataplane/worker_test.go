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
	if rx != tx+dropped || s.Held != 0 {
		r.t.Errorf("%d packets received, %d sent, %d dropped, %d held", rx, tx, dropped, s.Held)
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

func TestPacketsWaitForTheirNeighbour(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
	r.start()
	r.wait("20 held packets", func(s *dataplane.Stats) bool { return s.Held == 20 })
	r.fib.SetAdjacency(r.adj[1], 1, 0x0200000000bb)
	r.fib.Bump()
	r.wait("20 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 20 })
	r.stop()
	for i, f := range r.out[1] {
		if number(f) != i || f[5] != 0xbb || f[22] != 63 {
			t.Fatalf("packet %d leaves as % x", i, f)
		}
	}
	if len(r.asks) == 0 || r.asks[0] != netip.MustParseAddr("10.1.0.1") {
		t.Errorf("asked for %v", r.asks)
	}
}

func TestAPacketWaitsOnlySoLong(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(5, "10.1.0.1"), 5)
	start := time.Now()
	r.start()
	r.wait("5 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.NeighborUnresolved] == 5 })
	if d := time.Since(start); d < 2500*time.Millisecond || d > 4500*time.Millisecond {
		t.Errorf("dropped after %v, want about 3 s", d)
	}
	r.stop()
	if len(r.asks) < 5+5 {
		t.Errorf("asked %d times in 3 s, want again at every retry", len(r.asks))
	}
}

// However long it is sent to: its packets are retried several times meanwhile.
func TestOneSilentHostDoesNotFillTheHold(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		r.fib.Bump()
		if held := r.router.Stats().Held; held > 32 {
			t.Fatalf("%d packets to one host are held", held)
		}
	}
	r.queues[0].Pause()
	if s := r.stop(); s.Ports[0].Drops[batch.HoldFull] == 0 || s.Ports[0].Drops[batch.Stopping] != 32 {
		t.Errorf("drops: %v", s.Ports[0].Drops)
	}
}

// Packets that wait stay in order, also with others in between that go on.
func TestWaitingPacketsStayInOrder(t *testing.T) {
	r := newRig(t, 1024)
	other, _ := r.fib.NewAdjacency(1)
	id, _ := r.fib.NewNextHop(fib.KindForward, fib.Path{Adjacency: other, Weight: 1})
	if err := r.fib.IPv4.Insert(netip.MustParsePrefix("10.1.0.2/32"), id); err != nil {
		t.Fatal(err)
	}
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var frames [][]byte
	for i, f := range numbered(20, "10.1.0.1") {
		frames = append(frames, f, numbered(20, "10.1.0.2")[i])
	}
	r.queues[0].Play(frames, len(frames))
	r.start()
	r.wait("40 held packets", func(s *dataplane.Stats) bool { return s.Held == 40 })
	for _, adj := range []uint32{other, r.adj[1]} {
		r.fib.SetAdjacency(adj, 1, 0x0200000000bb)
		r.fib.Bump()
		sent := 20
		if adj != other {
			sent = 40
		}
		r.wait("20 more", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == uint64(sent) })
	}
	r.stop()
	for i, f := range r.out[1] {
		if number(f) != i%20 || f[33] != byte(2-i/20) {
			t.Fatalf("packet %d leaves as number %d to 10.1.0.%d", i, number(f), f[33])
		}
	}
}

func TestAScanFillsTheHoldAndNoMore(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var scan [][]byte
	for i := range 2000 {
		scan = append(scan, testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), 1, 2))
	}
	r.queues[0].Play(scan, len(scan))
	r.queues[1].Play(numbered(3000, "10.0.0.1"), 3000)
	r.start()
	r.wait("the other port's packets", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 3000 })
	r.wait("256 held", func(s *dataplane.Stats) bool { return s.Held == 256 })
	if s := r.stop(); s.Ports[0].Drops[batch.HoldFull] != 2000-256 {
		t.Errorf("hold_full %d", s.Ports[0].Drops[batch.HoldFull])
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

// late answers an engine's chunks out of step: a chunk is done only after the
// given number of further questions.
type late struct {
	dataplane.Engine
	patience, asked int
}

func (l *late) Done(c *batch.Chunk) bool {
	l.asked++
	return l.asked%l.patience == 0 && l.Engine.Done(c)
}

func TestManyChunksInFlightKeepTheOrder(t *testing.T) {
	r := newRig(t, 16)
	r.config.Workers[0].Engine = &late{Engine: r.engine, patience: 5}
	r.queues[0].Play(numbered(4000, "10.1.0.1"), 4000)
	r.start()
	r.wait("4000 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 4000 })
	r.stop()
	for i, f := range r.out[1] {
		if number(f) != i {
			t.Fatalf("packet %d leaves as number %d", number(f), i)
		}
	}
}

// pipe is an engine that is done with a chunk only when it has the next.
type pipe struct {
	dataplane.Engine
	last *batch.Chunk
}

func (p *pipe) Submit(c *batch.Chunk)    { p.Engine.Submit(c); p.last = c }
func (p *pipe) Done(c *batch.Chunk) bool { return c != p.last }

// Under endless load there is always a chunk under way, and still numbers of the
// forwarding base become free, and the router stops.
func TestAnEngineThatIsAlwaysBusy(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &pipe{Engine: r.engine}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	paths := []fib.Path{{Adjacency: r.adj[0], Weight: 1}, {Adjacency: r.adj[1], Weight: 1}}
	for i := range fib.MaxGroups + 1000 {
		id, err := r.fib.NewNextHop(fib.KindForward, paths...)
		if err != nil {
			t.Fatalf("group %d: %v", i, err)
		}
		r.fib.FreeNextHop(id)
		if i%1000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	start := time.Now()
	r.router.Stop()
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("stopping took %v", d)
	}
	r.stop()
}

// An engine that dies with chunks in hand does not keep the router from stopping,
// and their packets are counted.
func TestAnEngineThatDies(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &late{Engine: r.engine, patience: 1 << 60}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), 100)
	r.start()
	r.wait("100 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 100 })
	if s := r.stop(); s.Ports[0].Drops[batch.Stopping] != 100 {
		t.Errorf("drops: %v", s.Ports[0].Drops)
	}
}

// lazy is an engine that decides on its first chunk only; mad is one whose
// answers no engine can mean.
type (
	lazy struct {
		dataplane.Engine
		chunks int
	}
	mad struct{ dataplane.Engine }
)

func (l *lazy) Submit(c *batch.Chunk) {
	if l.chunks++; l.chunks == 1 {
		l.Engine.Submit(c)
	}
}

func (m *mad) Submit(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Verdict(0xffff - 0x0fff*(i%16) - i)}
	}
}

func TestWhatNoEngineDecidedIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		engine func(dataplane.Engine) dataplane.Engine
		sent   uint64
	}{
		"lazy": {func(e dataplane.Engine) dataplane.Engine { return &lazy{Engine: e} }, 64},
		"mad":  {func(e dataplane.Engine) dataplane.Engine { return &mad{e} }, 0},
	} {
		r := newRig(t, 64)
		r.config.Workers[0].Engine = c.engine(r.engine)
		r.queues[0].Play(numbered(640, "10.1.0.1"), 640)
		r.start()
		r.wait("640 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 640 })
		s := r.stop()
		if s.Ports[1].TxPackets != c.sent || name == "lazy" && s.Ports[0].Drops[batch.Unprocessed] != 640-c.sent {
			t.Errorf("%s: %d sent, drops %v", name, s.Ports[1].TxPackets, s.Ports[0].Drops)
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
