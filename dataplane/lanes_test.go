package dataplane_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// byDSCP returns lanes for the DSCPs 46, 26 and 10 with a deadline, and one for all others.
func byDSCP(t *testing.T, lanes int, deadline time.Duration) *lane.Lanes {
	t.Helper()
	var all []lane.Lane
	for i := range lanes - 1 {
		all = append(all, lane.Lane{
			Name: []string{"first", "second", "third"}[i], Deadline: deadline,
			Match: []lane.Match{{AnyProtocol: true, DSCP: 1 << []int{46, 26, 10}[i]}},
		})
	}
	compiled, err := lane.Compile(append(all, lane.Lane{Name: "rest", Deadline: time.Millisecond}), nil)
	require.NoError(t, err)
	return compiled
}

// useLanes gives the rig lanes, and two chunks for each.
func (r *rig) useLanes(lanes *lane.Lanes) {
	r.config.Lanes = lanes
	r.config.Workers[0].Chunks = batch.NewChunks(2*len(lanes.All()), r.config.MaxPackets)
}

// inLane returns packet n of a flow by port 1, with a DSCP.
func inLane(flow uint16, dscp byte, n uint32) []byte {
	return testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1000+flow, 2, binary.BigEndian.AppendUint32(nil, n)...), 1, dscp<<2)
}

// async is an engine that finishes the chunks of a lane in order, and those of several in any relative order:
// a chunk is done when it was asked for a random number of times.
type async struct {
	dataplane.Engine
	rnd   *rand.Rand
	left  map[*batch.Chunk]int
	lanes [batch.MaxLanes][]*batch.Chunk // submitted, oldest first
	never func(c *batch.Chunk) bool      // these are never done; nil for none

	t         *testing.T
	overtaken int // chunks that were done later than one submitted after them
	number    map[*batch.Chunk]int
	submitted int
}

func newAsync(t *testing.T, e dataplane.Engine) *async {
	return &async{Engine: e, t: t, rnd: rand.New(rand.NewPCG(3, 4)), left: map[*batch.Chunk]int{}, number: map[*batch.Chunk]int{}}
}

func (a *async) Submit(c *batch.Chunk) {
	a.Engine.Submit(c)
	a.left[c] = a.rnd.IntN(20) * a.rnd.IntN(2)
	a.lanes[c.Lane] = append(a.lanes[c.Lane], c)
	a.number[c] = a.submitted
	a.submitted++
}

func (a *async) Done(c *batch.Chunk) bool {
	if a.lanes[c.Lane][0] != c {
		a.t.Errorf("a chunk of lane %d is asked for before an older one", c.Lane)
	}
	if a.never != nil && a.never(c) {
		return false
	}
	if a.left[c]--; a.left[c] >= 0 {
		return false
	}
	a.lanes[c.Lane] = a.lanes[c.Lane][1:]
	for i := range a.lanes {
		for _, other := range a.lanes[i] {
			if a.number[other] < a.number[c] {
				a.overtaken++
			}
		}
	}
	delete(a.left, c)
	delete(a.number, c)
	return true
}

// Flows of all lanes, at random, by engines that finish at once and by one that finishes lanes in random
// relative order.
func TestFlowsKeepTheirOrderInEveryLane(t *testing.T) {
	const packets, flows = 8_000, 40
	for _, lanes := range []int{2, 3, 4} {
		for _, random := range []bool{false, true} {
			r, rnd := newRig(t, 256), rand.New(rand.NewPCG(uint64(lanes), 8))
			r.useLanes(byDSCP(t, lanes, time.Second))
			engine := newAsync(t, r.engine)
			if random {
				r.config.Workers[0].Engine = engine
			}
			var frames [][]byte
			next := [flows]uint32{}
			for range packets {
				f := rnd.IntN(flows)
				frames = append(frames, inLane(uint16(f), []byte{46, 26, 10, 0}[f%4], next[f]))
				next[f]++
			}
			source := &bursts{Queue: r.queues[0], rnd: rnd}
			r.config.Workers[0].Queues[0][0] = source
			r.queues[0].Play(frames, packets)
			s := r.run("all packets", func(s *dataplane.Stats) bool {
				return s.Ports[1].TxPackets+s.Ports[0].Dropped() == packets
			})
			if s.Ports[0].Drops[batch.LaneFull] != s.Ports[0].Dropped() || s.Ports[0].Dropped() > packets/2 {
				t.Errorf("%d lanes: %d of %d packets dropped", lanes, s.Ports[0].Dropped(), packets)
			}
			last := map[uint16]int{}
			for _, f := range r.out[1] {
				flow, n := binary.BigEndian.Uint16(f[34:]), int(binary.BigEndian.Uint32(f[42:]))
				if was, ok := last[flow]; ok && n <= was {
					t.Fatalf("%d lanes: packet %d of flow %d leaves after %d", lanes, n, flow-1000, was)
				}
				last[flow] = n
			}
			if len(last) != flows || random && engine.overtaken == 0 {
				t.Errorf("%d lanes: %d flows of %d left, %d chunks were overtaken", lanes, len(last), flows, engine.overtaken)
			}
			var sum uint64
			for i, l := range s.Lanes {
				if sum += l.Packets; l.Packets == 0 || l.Total.Count != l.Chunks || l.Queued != 0 {
					t.Errorf("lane %d of %d: %d packets in %d chunks, %d latencies, %d queued", i, lanes, l.Packets, l.Chunks, l.Total.Count, l.Queued)
				}
			}
			if sum != s.Packets.Sum || len(s.Lanes) != lanes {
				t.Errorf("%d packets in %d lanes, want %d in %d", sum, len(s.Lanes), s.Packets.Sum, lanes)
			}
		}
	}
}

// bursts is a port that receives bursts of random lengths, with pauses.
type bursts struct {
	dataplane.Queue
	rnd  *rand.Rand
	left int
}

func (b *bursts) Receive(dst []batch.Frame) int {
	if b.left == 0 {
		b.left = b.rnd.IntN(200)
		return 0
	}
	n := b.Queue.Receive(dst[:min(len(dst), b.left)])
	b.left -= n
	return n
}

// While the engine finishes no chunk of the last lane, packets of the first lane pass, and the frames of the
// others are bounded.
func TestFirstLaneDoesNotWaitForOthers(t *testing.T) {
	for name, lanes := range map[string]int{"two lanes": 2, "four lanes": 4} {
		r := newRig(t, 32)
		r.useLanes(byDSCP(t, lanes, time.Second))
		engine := newAsync(t, r.engine)
		engine.never = func(c *batch.Chunk) bool { return c.Lane > 0 }
		r.config.Workers[0].Engine = engine
		var frames [][]byte
		for i := range 1000 {
			dscp := []byte{0, 26, 10}[i%3]
			if i%20 == 7 {
				dscp = 46
			}
			frames = append(frames, inLane(uint16(dscp), dscp, uint32(i)))
		}
		r.config.Workers[0].Queues[0][0] = &bursts{Queue: r.queues[0], rnd: rand.New(rand.NewPCG(1, 1))}
		r.queues[0].Play(frames, -1)
		r.queues[1].Collect(nil)
		r.start()
		r.wait("packets of the first lane", func(s *dataplane.Stats) bool {
			for _, l := range s.Lanes[1:] {
				if l.Packets != 0 {
					t.Errorf("%s: %d packets of another lane left", name, l.Packets)
				}
			}
			return s.Ports[1].TxPackets >= 20_000
		})
		s := r.router.Stats()
		var queued int64
		for _, l := range s.Lanes {
			queued += l.Queued
		}
		if most := int64(r.mem.Frames() / 4); queued > most || s.Frames[0].Free == 0 || s.Lanes[0].Packets < 20_000 {
			t.Errorf("%s: %d packets queued, at most %d; frames %+v; %d packets of the first lane", name, queued, most, s.Frames[0], s.Lanes[0].Packets)
		}
		r.queues[0].Pause()
		s = r.stop()
		if d := s.Ports[0].Drops; d[batch.LaneFull] == 0 || d[batch.Stopping] == 0 || d[batch.LaneFull]+d[batch.Stopping] != s.Ports[0].Dropped() {
			t.Errorf("%s: drops %v", name, drops(s))
		}
	}
}

// Every lane has chunks of its own: a lane that the engine does not finish leaves the others theirs.
func TestChunksAreReservedForEachLane(t *testing.T) {
	for stuck := range uint8(3) {
		r := newRig(t, 32)
		r.useLanes(byDSCP(t, 3, time.Second))
		r.config.Workers[0].Chunks = batch.NewChunks(3, 32)
		engine := newAsync(t, r.engine)
		engine.never = func(c *batch.Chunk) bool { return c.Lane == stuck }
		r.config.Workers[0].Engine = engine
		var frames [][]byte
		for i := range 999 {
			frames = append(frames, inLane(uint16(i%3), []byte{46, 26, 0}[i%3], uint32(i)))
		}
		r.queues[0].Play(frames, 999)
		s := r.run("the other lanes", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 666 })
		if s.Lanes[stuck].Packets != 0 || s.Ports[0].Drops[batch.Stopping] != 333 {
			t.Errorf("lane %d is stuck: %d of its packets passed, drops %v", stuck, s.Lanes[stuck].Packets, drops(s))
		}
	}
}

// slow is an engine that takes a time per byte, when a chunk is submitted.
type slow struct {
	dataplane.Engine
	perByte time.Duration
	longest map[uint8]int // bytes of the longest chunk by lane, of the latest ones
	chunks  int
}

func (s *slow) Submit(c *batch.Chunk) {
	bytes := 0
	for _, f := range c.In[:c.N] {
		bytes += int(f.Len)
	}
	if s.chunks++; s.chunks > 200 {
		s.longest[c.Lane] = max(s.longest[c.Lane], bytes)
	}
	for from := batch.Clock(); batch.Clock()-from < time.Duration(bytes)*s.perByte; {
	}
	s.Engine.Submit(c)
}

// Chunks of the last lane get shorter until one takes the worker half the deadline of the first at most.
func TestLaterLanesLeaveTheWorkerInTime(t *testing.T) {
	r := newRig(t, 1024)
	r.config.MaxPackets = 1024
	r.useLanes(byDSCP(t, 2, 100*time.Microsecond))
	e := &slow{Engine: r.engine, perByte: 4 * time.Nanosecond, longest: map[uint8]int{}}
	r.config.Workers[0].Engine = e
	frames := [][]byte{inLane(1, 46, 0)}
	for range 30 {
		frames = append(frames, testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 1000)...))
	}
	r.queues[0].Play(frames, -1)
	r.queues[1].Collect(nil)
	r.start()
	r.wait("600 chunks", func(s *dataplane.Stats) bool { return s.Chunks > 600 })
	r.queues[0].Pause()
	r.stop()
	const fits = 50_000 / 4 // bytes in half of 100 µs
	if n := e.longest[1]; n > fits*5/4 || n < 4<<10 {
		t.Errorf("a chunk of %d bytes, about %d bytes take half the deadline", n, fits)
	}
}

// A chunk that is sent after its deadline is counted, and none of its packets dropped.
func TestMissedDeadlinesAreCounted(t *testing.T) {
	r := newRig(t, 64)
	r.useLanes(byDSCP(t, 2, 100*time.Microsecond))
	r.config.Workers[0].Engine = &slow{Engine: r.engine, perByte: 100 * time.Microsecond, longest: map[uint8]int{}}
	r.queues[0].Play([][]byte{inLane(1, 46, 0)}, 5)
	s := r.run("5 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 5 })
	if l := s.Lanes[0]; l.Missed != 5 || l.Packets != 5 || l.Name != "first" || l.Deadline != 100*time.Microsecond {
		t.Errorf("lane: %+v", l)
	}
	if s.Lanes[1].Missed != 0 || s.Ports[0].Dropped() != 0 {
		t.Errorf("%d deadlines missed in the empty lane, drops %v", s.Lanes[1].Missed, drops(s))
	}
}

// Packets that wait for a neighbor pass before later ones of their flow, in whatever lane.
func TestPendingPacketsOfAllLanesAreRetried(t *testing.T) {
	r := newRig(t, 64)
	r.useLanes(byDSCP(t, 2, 100*time.Microsecond))
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var frames [][]byte
	for i := range 4 {
		frames = append(frames, inLane(uint16(i%2), byte(i%2*46), uint32(i)))
	}
	r.queues[0].Play(frames, 4)
	r.start()
	r.wait("4 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 4 })
	r.fib.SetAdjacency(r.adj[1], 1, 0x0200000000bb)
	r.fib.Commit()
	r.wait("4 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 4 })
	r.stop()
	seen := map[uint16]int{}
	for _, f := range r.out[1] {
		flow := binary.BigEndian.Uint16(f[34:])
		if n := number(f); n < seen[flow] {
			t.Errorf("packet %d of flow %d leaves late", n, flow)
		} else {
			seen[flow] = n
		}
	}
}
