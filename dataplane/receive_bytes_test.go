package dataplane_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
)

// sizes is an engine that records the sizes of chunks.
type sizes struct {
	dataplane.Engine
	most, chunks int // bytes of the longest chunk of several packets, and number of chunks
}

func (s *sizes) Submit(c *batch.Chunk) {
	bytes := 0
	for _, f := range c.In[:c.N] {
		bytes += int(f.Len)
	}
	if s.chunks++; c.N > 1 {
		s.most = max(s.most, bytes)
	}
	s.Engine.Submit(c)
}

func TestChunksAreBoundedInBytes(t *testing.T) {
	const packets = 20_000
	rnd, total := rand.New(rand.NewPCG(5, 5)), 0
	var frames [][]byte
	for range packets {
		frames = append(frames, testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, []int{8, 500, 1400}[rnd.IntN(3)])...))
		total += len(frames[len(frames)-1])
	}
	for _, maxBytes := range []int{1, 3000, 64 << 10} {
		for _, lanes := range []int{1, 2} {
			r := newRig(t, 512)
			e := &sizes{Engine: r.engine}
			r.config.MaxBytes, r.config.Workers[0].Engine, r.config.MaxDelay = maxBytes, e, time.Hour
			r.config.Workers[0].Queues[0][0] = &bursts{Queue: r.queues[0], rnd: rnd}
			if lanes > 1 {
				r.useLanes(byDSCP(t, lanes, time.Second))
			}
			r.queues[0].Play(frames, packets)
			r.queues[1].Collect(nil)
			s := r.run("all packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets+s.Ports[0].Dropped() == packets })
			if e.most > maxBytes || lanes == 1 && s.Ports[0].Dropped() != 0 {
				t.Errorf("%d lanes, up to %d bytes: a chunk of %d; %d packets dropped", lanes, maxBytes, e.most, s.Ports[0].Dropped())
			}
			if least := total / (2 * maxBytes); maxBytes > 3000 && e.chunks < least/2 || maxBytes == 1 && s.Packets.Sum != s.Chunks {
				t.Errorf("%d lanes, up to %d bytes: %d packets in %d chunks", lanes, maxBytes, s.Packets.Sum, s.Chunks)
			}
		}
	}
}

// TestChunksThatLeavePacketsBehindAreFull: for any limit that ends them, and no others.
func TestChunksThatLeavePacketsBehindAreFull(t *testing.T) {
	for name, c := range map[string]struct {
		packets, maxBytes int
		delay             time.Duration
		full              bool
	}{
		"packets":     {packets: 1000, delay: time.Second, full: true},
		"bytes":       {packets: 1000, maxBytes: 4000, delay: time.Second, full: true},
		"time":        {packets: 1000, full: true},
		"one a chunk": {packets: 1, delay: time.Second},
	} {
		r := newRig(t, 32)
		r.config.MaxBytes, r.config.MaxDelay = c.maxBytes, c.delay
		e := &fullness{Engine: r.engine}
		r.config.Workers[0].Engine = e
		r.queues[0].Play(numbered(c.packets, "10.1.0.1"), c.packets)
		r.run(name, func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == uint64(c.packets) })
		if most := (e.chunks + 1) / 2; c.full && e.full < most || !c.full && e.full > 0 {
			t.Errorf("%s: %d of %d chunks are full", name, e.full, e.chunks)
		}
	}
}

// fullness counts full chunks.
type fullness struct {
	dataplane.Engine
	chunks, full int
}

func (f *fullness) Submit(c *batch.Chunk) {
	if f.chunks++; c.Full {
		f.full++
	}
	f.Engine.Submit(c)
}
