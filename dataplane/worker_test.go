package dataplane_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
)

func TestPacketsAreNotReordered(t *testing.T) {
	for _, max := range []int{1, 7, 64, 1024} {
		r := newRig(t, max)
		r.queues[0].Play(numbered(5000, "10.1.0.1"), 5000)
		s := r.run("5000 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 5000 })
		r.checkOrder()
		if s.Packets.Sum != 5000 || s.Stages[dataplane.StageTotal].Count != s.Chunks {
			t.Errorf("chunks of %d: %d packets in %d chunks, %d latencies", max, s.Packets.Sum, s.Chunks, s.Stages[dataplane.StageTotal].Count)
		}
		if s.Ports[0].RxBytes != 5000*60 || s.Ports[1].TxBytes != 5000*46 {
			t.Errorf("%d bytes received, %d sent", s.Ports[0].RxBytes, s.Ports[1].TxBytes)
		}
	}
}

// A port has one queue.
func TestPrecedenceDoesNotReorder(t *testing.T) {
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
	r.run("all packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == n })
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
	s := r.run("250 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped()+s.Ports[1].Dropped() == 250 })
	if d := s.Ports[0].Drops; d[batch.BadChecksum] != 100 || d[batch.TooShort] != 100 {
		t.Errorf("port 0: %v", d)
	}
	if d := s.Ports[1].Drops; d[batch.NoRoute] != 50 {
		t.Errorf("port 1: %v", d)
	}
}

// drip is a port that receives one packet per call.
type drip struct{ dataplane.Queue }

func (d *drip) Receive(dst []batch.Frame) int { return d.Queue.Receive(dst[:min(len(dst), 1)]) }

// A chunk is submitted when it is full, when the rings are empty, or after MaxDelay.
func TestChunksAreSubmittedWhenFullOrDue(t *testing.T) {
	for _, c := range []struct {
		name     string
		drip     bool
		packets  int
		maxDelay time.Duration
		ok       func(s *dataplane.Stats) bool
	}{
		{"full", false, 6400, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 100 }},
		{"empty rings", false, 3, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 1 }},
		{"full, one packet per call", true, 640, time.Hour, func(s *dataplane.Stats) bool { return s.Chunks == 10 }},
		{"no delay", true, 50, 0, func(s *dataplane.Stats) bool { return s.Chunks == 50 }},
	} {
		r := newRig(t, 64)
		r.config.MaxDelay = c.maxDelay
		if c.drip {
			r.config.Workers[0].Queues[0][0] = &drip{r.queues[0]}
		}
		r.config.Workers[0].Queues[1][0] = r.queues[1]
		r.queues[0].Play(numbered(c.packets, "10.1.0.1"), c.packets)
		s := r.run(c.name, func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == uint64(c.packets) })
		if !c.ok(s) {
			t.Errorf("%s: %d packets in %d chunks", c.name, c.packets, s.Chunks)
		}
	}
}

// stuck is a port that transmits only a few packets.
type stuck struct {
	dataplane.Queue
	room int
}

func (s *stuck) Transmit(src []batch.Frame) int {
	n := s.Queue.Transmit(src[:min(len(src), s.room)])
	s.room -= n
	return n
}

func TestFullTransmitRingDrops(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Queues[1][0] = &stuck{r.queues[1], 100}
	r.queues[0].Play(numbered(300, "10.1.0.1"), 300)
	s := r.run("300 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 300 })
	if s.Ports[1].TxPackets != 100 || s.Ports[0].Drops[batch.TxFull] != 200 {
		t.Errorf("%d sent, %d dropped", s.Ports[1].TxPackets, s.Ports[0].Drops[batch.TxFull])
	}
}

// Idle time is the time without work, polling or asleep.
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
	idle, load := r.router.Stats().Idle, r.router.Stats().Loads[0]
	r.queues[0].Pause()
	if load.Elapsed < span || load.Elapsed > 10*span || load.Busy < load.Elapsed/2 || load.Busy > load.Elapsed {
		t.Errorf("always with packets for %v: busy for %v of %v", span, load.Busy, load.Elapsed)
	}
	if r.stop(); idle > span/3 { // on a busy machine
		t.Errorf("always with packets for %v: idle for %v", span, idle)
	}
}

// A port at full load does not displace the others.
func TestQueuesArePolledRoundRobin(t *testing.T) {
	for _, max := range []int{1, 256} {
		r := newRig(t, max)
		r.queues[0].Play(numbered(1000, "172.16.0.1"), -1)
		r.queues[1].Play(numbered(1000, "172.16.0.1"), -1)
		s := r.run("50000 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets > 50_000 })
		if a, b := s.Ports[0].RxPackets, s.Ports[1].RxPackets; a > b*11/10 || b > a*11/10 {
			t.Errorf("chunks of %d: port 0 received %d packets, port 1 %d", max, a, b)
		}
	}
}

// Truncated, extended and overwritten frames are forwarded or counted as dropped, and all valid frames
// among them arrive.
func TestMalformedFramesAreDropped(t *testing.T) {
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
	s := r.run("all", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == total })
	if arrived < total/2 {
		t.Errorf("%d of %d good packets arrived", arrived, total/2)
	}
	if d := s.Ports[0].Drops; d[batch.Unprocessed] != 0 || d[batch.TxFull] != 0 || d[batch.TooShort] == 0 || d[batch.BadChecksum] == 0 {
		t.Errorf("drops: %v", d)
	}
}
