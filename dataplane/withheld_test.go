package dataplane_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// failing loses every third chunk, as a GPU does that misses its deadline, and quiesces some
// questions later. While it has not, it decides as its engine does.
type failing struct {
	dataplane.Engine
	rnd     *rand.Rand
	every   int
	chunks  int
	writing int         // questions until it has quiesced
	hang    atomic.Bool // it does not quiesce
	well    atomic.Bool // it loses nothing more
	outages atomic.Int64
}

func (f *failing) Submit(c *batch.Chunk) {
	f.chunks++
	if f.well.Load() || f.writing > 0 || f.chunks%f.every != 0 {
		f.Engine.Submit(c)
		return
	}
	f.writing = 1 + f.rnd.IntN(4)
	f.outages.Add(1)
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}

func (f *failing) Quiesced() bool {
	if f.hang.Load() {
		return false
	}
	f.writing = max(f.writing-1, 0)
	return f.writing == 0
}

// 10,000 outages cost no frame.
func TestWithheldFramesReturnAfterQuiesce(t *testing.T) {
	const outages, packets = 10_000, 1 << 30
	r := newRig(t, 32)
	e := &failing{Engine: r.engine, rnd: rand.New(rand.NewPCG(1, 1)), every: 3}
	r.config.Workers[0].Engine = e
	r.queues[0].Play(numbered(1000, "10.1.0.1"), packets)
	r.queues[1].Collect(nil)
	r.start()
	r.wait("10,000 outages", func(s *dataplane.Stats) bool {
		if f := s.Frames[0]; f.Total != int64(r.mem.Frames()) || f.Free < 0 || f.Free+f.Withheld > f.Total {
			t.Fatalf("frames: %+v", f)
		}
		return e.outages.Load() >= outages
	})
	further := func() {
		before := r.router.Stats().Ports[0].RxPackets
		r.wait("further packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets > before+10_000 })
	}
	further()
	e.well.Store(true)
	further() // a chunk that was being submitted may still be lost
	r.wait("the frames", func(s *dataplane.Stats) bool { return s.Frames[0].Withheld == 0 })
	r.queues[0].Pause()
	s := r.stop()
	if f := s.Frames[0]; f.Withheld != 0 {
		t.Errorf("%d frames are withheld after %d outages", f.Withheld, e.outages.Load())
	}
	if lost := s.Ports[0].Drops[batch.EngineFailed]; lost < outages {
		t.Errorf("%d packets lost in %d outages", lost, e.outages.Load())
	}
}

func TestFramesOfAHungEngineStayWithheld(t *testing.T) {
	r := newRig(t, 64)
	e := &failing{Engine: r.engine, rnd: rand.New(rand.NewPCG(1, 1)), every: 1}
	e.hang.Store(true)
	r.config.Workers[0].Engine = e
	r.queues[0].Play(numbered(1000, "10.1.0.1"), 1000)
	r.start()
	r.wait("1000 packets", func(s *dataplane.Stats) bool {
		return s.Ports[1].TxPackets+s.Ports[0].Drops[batch.EngineFailed] == 1000
	})
	s := r.router.Stats()
	if f := s.Frames[0]; f.Withheld != int64(s.Ports[0].Drops[batch.EngineFailed]) || f.Withheld == 0 || f.Free == 0 {
		t.Errorf("frames: %+v, packets lost: %d", f, s.Ports[0].Drops[batch.EngineFailed])
	}
	e.hang.Store(false)
	r.wait("the frames", func(s *dataplane.Stats) bool { return s.Frames[0].Withheld == 0 })
	time.Sleep(time.Millisecond)
	r.stop()
}
