package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hist"
)

// Stage is a stage of a chunk whose latency is recorded.
type Stage uint8

const (
	StageWait   Stage = iota // first packet received to chunk submitted
	StageEngine              // submitted to results seen
	StageOrder               // results seen to all earlier chunks transmitted
	StageTx                  // that to packets in the transmit rings and the kernel notified
	StageTotal               // first packet received to kernel notified
	NumStages   = iota
)

var stages = [NumStages]string{"wait", "engine", "order", "tx", "total"}

func (s Stage) String() string { return stages[s] }

// workerStats are the statistics that a worker publishes.
type workerStats struct {
	chunks       atomic.Uint64
	waiting      atomic.Int64 // packets in the pending queue
	transmitting atomic.Int64 // TX descriptors that are not completed
	inFlight     atomic.Int64 // chunks that the engine has
	idle         atomic.Int64 // nanoseconds of iterations without work
	started      atomic.Int64 // batch.Clock at the start, 0 before

	frames         int64 // in the UMEM, without large frames
	free, withheld atomic.Int64

	originated atomic.Int64 // packets that no port received
	merged     atomic.Int64 // fragments that became part of a reassembled packet
	delivered  atomic.Int64 // packets delivered to the host, and through it to interfaces that are not ports

	packets hist.Histogram
	stages  [NumStages]hist.Histogram
	lanes   [batch.MaxLanes]laneStats
}

// record adds the latencies of a finished chunk.
func (s *workerStats) record(c *batch.Chunk) {
	s.lanes[c.Lane].record(c)
	s.chunks.Add(1)
	s.packets.Record(uint64(c.N), 1)
	s.stages[StageWait].Record(uint64(c.Submitted-c.Received), 1)
	s.stages[StageEngine].Record(uint64(c.Finished-c.Submitted), 1)
	s.stages[StageOrder].Record(uint64(c.Ordered-c.Finished), 1)
	s.stages[StageTx].Record(uint64(c.Sent-c.Ordered), 1)
	s.stages[StageTotal].Record(uint64(c.Sent-c.Received), 1)
}

// PortStats are the counters of a port since the start, all workers together.
type PortStats struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64 // given to the transmit rings

	ExitPackets, ExitBytes uint64 // received packets that Linux got to forward them

	Drops [batch.NumReasons]uint64
}

// Dropped returns the sum of the drops.
func (p *PortStats) Dropped() (n uint64) {
	for _, d := range p.Drops {
		n += d
	}
	return n
}

// Stats are the statistics of a router since the start. Packets are conserved: received + Originated
// = transmitted + dropped + Merged + Delivered + packets in the router, where received and transmitted are
// sums over the physical ports and Removed, and dropped is one over all ports. As in Linux, the packets and bytes of a
// physical port include those of its VLANs, with their tags. A drop counts once, for the port of the VLAN
// that the packet belonged to.
type Stats struct {
	Ports        []PortStats    // physical, by number; zero for a number without a port
	Removed      PortStats      // of removed physical ports
	Logical      []LogicalStats // by number
	Engine       string
	Workers      int
	Chunks       uint64        // finished by engines
	Waiting      int64         // packets in the pending queues now, waiting for neighbors or SAs
	Transmitting int64         // TX descriptors that are not completed now
	InFlight     int64         // chunks that engines have now
	Idle         time.Duration // of all workers, polling or asleep without work
	Frames       []FrameStats  // by worker
	Loads        []LoadStats   // by worker

	Originated int64 // ICMP errors, packets of the host, and all but one fragment of each fragmented packet
	Merged     int64 // all but one fragment of each reassembled packet
	Delivered  int64 // to the host, with PortStats.ExitPackets

	Lanes   []LaneStats
	Packets hist.Snapshot            // per chunk
	Stages  [NumStages]hist.Snapshot // in nanoseconds, one value per chunk
}

// FrameStats are the numbers of frames of a worker now, without large frames.
type FrameStats struct {
	Total    int64 `json:"total"`    // frames of the worker
	Free     int64 `json:"free"`     // in the pool; others are in rings, chunks and queues, or withheld
	Withheld int64 `json:"withheld"` // unused, because a failed GPU may still write to them
}

// LoadStats is the time of a worker since its start.
type LoadStats struct {
	Elapsed time.Duration
	Busy    time.Duration // with packets; the rest it polled or slept, also while a GPU had its packets
}

// loads returns the times of all workers. The latest sleep of a worker, 50 ms at most, counts as busy until
// it ends.
func (r *Router) loads() []LoadStats {
	all := make([]LoadStats, len(r.workers))
	for i, w := range r.workers {
		if start := w.stats.started.Load(); start != 0 {
			elapsed := batch.Clock() - time.Duration(start)
			all[i] = LoadStats{elapsed, max(0, elapsed-time.Duration(w.stats.idle.Load()))}
		}
	}
	return all
}

// Frames returns the frame statistics of all workers. It may be called at any time.
func (r *Router) Frames() []FrameStats {
	all := make([]FrameStats, len(r.workers))
	for i, w := range r.workers {
		all[i] = FrameStats{Total: w.stats.frames, Free: w.stats.free.Load(), Withheld: w.stats.withheld.Load()}
	}
	return all
}

// Stats returns the sum of all workers' statistics. It may be called at any time.
func (r *Router) Stats() *Stats {
	s := &Stats{Ports: make([]PortStats, r.ports), Workers: len(r.workers), Engine: r.workers[0].engine.Name(), Frames: r.Frames(), Loads: r.loads(), Lanes: r.lanes()}
	r.physical.add(r, s)
	for _, w := range r.workers {
		s.Chunks += w.stats.chunks.Load()
		s.Waiting += w.stats.waiting.Load()
		s.Transmitting += w.stats.transmitting.Load()
		s.Idle += time.Duration(w.stats.idle.Load())
		s.InFlight += w.stats.inFlight.Load()
		s.Originated += w.stats.originated.Load()
		s.Merged += w.stats.merged.Load()
		s.Delivered += w.stats.delivered.Load()
		w.stats.packets.AddTo(&s.Packets)
		for i := range w.stats.stages {
			w.stats.stages[i].AddTo(&s.Stages[i])
		}
	}
	r.logical.add(r, s)
	return s
}
