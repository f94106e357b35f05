package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hist"
)

// laneStats are the statistics of a worker's lane. The worker writes them.
type laneStats struct {
	packets, chunks, missed atomic.Uint64
	queued                  atomic.Int64
	total                   hist.Histogram
}

// record adds a finished chunk.
func (s *laneStats) record(c *batch.Chunk) {
	s.chunks.Add(1)
	s.packets.Add(uint64(c.N))
	if c.Deadline > 0 && c.Sent > c.Deadline {
		s.missed.Add(uint64(c.N))
	}
	s.total.Record(uint64(c.Sent-c.Received), 1)
}

// LaneStats are the statistics of a lane since the start, all workers together.
type LaneStats struct {
	Name     string
	Deadline time.Duration // of a chunk from its first packet, 0 for none
	Share    int           // percent of each GPU that serves the lane first

	Packets, Chunks uint64        // finished by engines
	Missed          uint64        // packets of chunks that were sent after their deadline
	Queued          int64         // packets in the queues of the lane now, in no chunk yet
	Total           hist.Snapshot // StageTotal of the lane's chunks, in nanoseconds
}

// lanes returns the sum of all workers' statistics of the lanes.
func (r *Router) lanes() []LaneStats {
	all := make([]LaneStats, len(r.workers[0].lanes))
	for i := range all {
		l, s := &r.workers[0].lanes[i], &all[i]
		s.Name, s.Deadline, s.Share = l.name, l.deadline, l.share
		for _, w := range r.workers {
			from := &w.stats.lanes[i]
			s.Packets += from.packets.Load()
			s.Chunks += from.chunks.Load()
			s.Missed += from.missed.Load()
			s.Queued += from.queued.Load()
			from.total.AddTo(&s.Total)
		}
	}
	return all
}
