package gen

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/umem"
)

// receiver counts the packets in the queues of a worker. It belongs to one thread; other threads read
// only received before it ends.
type receiver struct {
	queues []dataplane.Queue
	mem    []byte
	pool   *umem.Pool
	sender *sender // with the same memory, or nil

	listening bool   // accept the first run that is seen
	run       uint32 // to count; noRun before the first
	flows     *flows
	frames    [burst]batch.Frame

	received    atomic.Uint64 // different packets
	bytes       uint64        // of these, in memory
	corrupted   uint64
	unknown     uint64
	first, last time.Duration // arrival times
	latency     hist.Histogram
	shortest    uint64 // latency in ns
	longest     uint64
}

const noRun = 1 << 16 // no number of 16 bits

func newReceiver(w *Worker, run uint32, numFlows int) *receiver {
	return &receiver{
		queues: w.Queues, mem: w.Memory.Bytes(), pool: w.Pool,
		run: run, flows: newFlows(numFlows), shortest: math.MaxUint64,
	}
}

// newListener returns a receiver for packets of another process.
func newListener(w *Worker) *receiver {
	c := newReceiver(w, noRun, 0)
	c.listening = true
	return c
}

// receive receives up to a burst from each queue, and reports whether it was busy.
func (c *receiver) receive() (busy bool) {
	for _, q := range c.queues {
		n := q.Receive(c.frames[:])
		if n > 0 {
			busy = true
			c.count(c.frames[:n], clock())
		}
		q.Refill()
	}
	return busy
}

// count counts frames and frees them.
func (c *receiver) count(frames []batch.Frame, now time.Duration) {
	var fresh uint64
	for _, f := range frames {
		p, kind := read(c.mem[f.Addr:][:f.Len])
		switch {
		case kind == corrupted:
			c.corrupted++
		case kind == unknown || !c.expects(&p):
			c.unknown++
		case c.flows.count(int(p.flow), p.seq):
			fresh++
			c.bytes += uint64(f.Len)
			c.recordLatency(&p, now)
		}
		if c.sender != nil {
			c.sender.overwritten(f.Addr)
		}
		c.pool.Put(f.Addr)
	}
	if fresh > 0 {
		if c.first == 0 {
			c.first = now
		}
		c.last = now
		c.received.Add(fresh)
	}
}

// expects reports whether a probe is of this run.
func (c *receiver) expects(p *probe) bool {
	if c.listening && p.flow < MaxFlows {
		if c.run == noRun {
			c.run = p.run
		}
		if p.run == c.run {
			c.flows.grow(int(p.flow) + 1)
		}
	}
	return p.run == c.run && int(p.flow) < len(c.flows.of)
}

func (c *receiver) recordLatency(p *probe, now time.Duration) {
	ns, ok := p.age(now)
	if !ok {
		return // from another host with another clock
	}
	c.latency.Record(ns, 1)
	c.longest = max(c.longest, ns)
	c.shortest = min(c.shortest, ns)
}
